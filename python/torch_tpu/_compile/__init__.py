"""``torch.compile(backend="tpu")``.

hooks     what PyTorch's compiler learns of the device when it is first imported
backend   the Dynamo backend: AOTAutograd with our compiler function
split     a graph to pieces: calls of one device that are recorded together, and what runs between them
execute   a piece: recorded on its first call with such inputs (core/step/graph.c), launched from then on
artifacts what torch.compiler.save_cache_artifacts carries of us

No file here knows an operator: a piece runs the same kernels that eager mode runs. Nothing is imported before
PyTorch's compiler is.
"""
