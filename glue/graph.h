// Compiled graphs as ops of the namespace "torch_tpu": lists of tensors in, lists out. Not differentiable,
// not traceable: what calls them stands behind AOTAutograd.
//   new(name, device, inlined, fixed, generic) -> handle   free(handle)   report(handle), programs(handle) ->
//   JSON run(handle, inputs, numbers) -> (outputs, numbers), or (None, []) when nothing is recorded for such
//   inputs begin(handle, inputs, numbers)   the thread's calls are recorded from here to end(outputs,
//   numbers) -> why it is not kept, or ""   or abort()
//   scratch_draws(on): the thread's random draws leave every generator as it is
#pragma once

namespace tpu {

// Handles are numbers that are never used again.
struct Graphs {
  std::mutex lock;
  std::vector<tpu_graph *> list;
  int64_t add(tpu_graph *g) {
    std::lock_guard<std::mutex> hold(lock);
    list.push_back(g);
    return int64_t(list.size()) - 1;
  }
  tpu_graph *at(int64_t i, bool take = false) {
    std::lock_guard<std::mutex> hold(lock);
    TORCH_CHECK(i >= 0 && i < int64_t(list.size()) && list[size_t(i)], "torch_tpu: graph ", i,
                " does not exist");
    return take ? std::exchange(list[size_t(i)], nullptr) : list[size_t(i)];
  }
};
inline Graphs graphs;

// The tensors of a list as the core sees them; on the stack where they are few.
struct TensorList {
  c10::SmallVector<tpu_tensor, 16> t;
  explicit TensorList(const IValue &list) {
    const auto items = list.toListRef();
    t.resize(items.size());
    for (size_t i = 0; i < items.size(); i++) {
      const Tensor &x = items[i].toTensor();
      if (C10_UNLIKELY(!to_c(t[i], x)))
        TORCH_CHECK(false, "torch_tpu: tensor ", i, " of a compiled graph is on ", x.device(),
                    "; only tpu tensors and 0-dim CPU tensors can be handed to one");
    }
  }
  tpu_graph_inputs with(const std::vector<int64_t> &numbers) const {
    return {int(t.size()), int(numbers.size()), t.data(), numbers.data()};
  }
};

inline Generator &generator_of(int device) {
  return *static_cast<Generator *>(default_generator(DeviceIndex(device)).unsafeGetGeneratorImpl());
}

inline Tensor graph_output(const tpu_graph_out &o, const c10::Storage &storage) {
  auto t = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage),
                                                c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                c10::scalarTypeToTypeMeta(ScalarType(o.dtype)));
  t->set_sizes_and_strides({o.sizes, size_t(o.rank)}, {o.strides, size_t(o.rank)}, o.offset);
  Tensor x(std::move(t));
  if (o.flags & TPU_T_CONJ) x._set_conj(true);
  if (o.flags & TPU_T_NEG) x._set_neg(true);
  return x;
}

inline c10::List<Tensor> graph_outputs(const tpu_graph_results &r, c10::ArrayRef<IValue> inputs, int device) {
  c10::SmallVector<c10::Storage, 16> storages;
  for (int i = 0; i < r.nstorages; i++)
    storages.emplace_back(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), tpu_storage_nbytes(r.storages[i]),
        data_ptr(r.storages[i], DeviceIndex(device)), allocator(), /*resizable=*/true));
  c10::List<Tensor> outs;
  outs.reserve(size_t(r.nouts));
  for (int i = 0; i < r.nouts; i++) {
    const tpu_graph_out &o = r.outs[i];
    if (o.input >= 0)
      outs.push_back(inputs[size_t(o.input)].toTensor());
    else if (o.view_of >= 0)
      outs.push_back(graph_output(o, inputs[size_t(o.view_of)].toTensor().storage()));
    else
      outs.push_back(graph_output(o, storages[size_t(o.storage)]));
  }
  return outs;
}

inline void graph_new(const OperatorHandle &, Stack *stack) {
  std::vector<uint32_t> generic;
  for (int64_t m : stack->back().toIntVector()) generic.push_back(uint32_t(m));
  const bool fixed = stack->end()[-2].toBool(), inlined = stack->end()[-3].toBool();
  const int64_t device = stack->end()[-4].toInt();
  tpu_graph *g = tpu_graph_new(stack->end()[-5].toStringRef().c_str(), int(device), inlined, fixed,
                               int(generic.size()), generic.data());
  torch::jit::drop(*stack, 5);
  torch::jit::push(*stack, graphs.add(g));
}

inline void graph_free(const OperatorHandle &, Stack *stack) {
  tpu_graph_free(graphs.at(torch::jit::pop(*stack).toInt(), true));
}

inline void graph_report(const OperatorHandle &, Stack *stack) {
  char *text = tpu_graph_json(graphs.at(torch::jit::pop(*stack).toInt()));
  torch::jit::push(*stack, std::string(text));
  std::free(text);
}

inline void graph_programs(const OperatorHandle &, Stack *stack) {
  char *text = tpu_graph_programs_json(graphs.at(torch::jit::pop(*stack).toInt()));
  torch::jit::push(*stack, std::string(text));
  std::free(text);
}

inline void graph_run(const OperatorHandle &, Stack *stack) {
  tpu_graph *g = graphs.at(stack->end()[-3].toInt());
  const int device = tpu_graph_device(g);
  IValue inputs = std::move(stack->end()[-2]);
  const std::vector<int64_t> numbers = stack->back().toIntVector();
  torch::jit::drop(*stack, 3);
  const TensorList list(inputs);
  const tpu_graph_inputs in = list.with(numbers);
  tell_default_dtype();
  tpu_graph_results r{};
  bool ran = false;
  const auto state = generator_of(device).source();
  PhiloxState &s = *state;
  std::lock_guard<std::mutex> hold(s.draw);
  const tpu_philox before = generator_of(device).get();
  tpu_philox now = before;
  check(tpu_graph_run(g, &in, &now, &ran, &r));
  if (!ran) return torch::jit::push(*stack, IValue(), c10::List<int64_t>());
  if (now.offset != before.offset) {
    std::lock_guard<std::mutex> moment(s.short_);
    if (s.v.seed == before.seed && s.v.offset == before.offset) s.v = now;
  }
  c10::List<int64_t> out;
  for (int i = 0; i < r.nnumbers; i++) out.push_back(r.numbers[i]);
  torch::jit::push(*stack, graph_outputs(r, inputs.toListRef(), device), std::move(out));
}

inline void graph_begin(const OperatorHandle &, Stack *stack) {
  tpu_graph *g = graphs.at(stack->end()[-3].toInt());
  const std::vector<int64_t> numbers = stack->back().toIntVector();
  {
    const TensorList list(stack->end()[-2]);
    const tpu_graph_inputs in = list.with(numbers);
    const tpu_philox now = generator_of(tpu_graph_device(g)).get();
    tell_default_dtype();
    check(tpu_graph_begin(g, &in, &now));
  }
  torch::jit::drop(*stack, 3);
}

inline void graph_end(const OperatorHandle &, Stack *stack) {
  const std::vector<int64_t> numbers = stack->back().toIntVector();
  const char *why = nullptr;
  {
    const TensorList list(stack->end()[-2]);
    const tpu_philox now = generator_of(int(stack->end()[-3].toInt())).get();
    const tpu_graph_ending end = {int(list.t.size()), int(numbers.size()), list.t.data(), numbers.data(),
                                  &now};
    check(tpu_graph_end(&end, &why));
  }
  torch::jit::drop(*stack, 3);
  torch::jit::push(*stack, std::string(why ? why : ""));
}

inline void graph_broken(const OperatorHandle &, Stack *stack) {
  const char *why = tpu_graph_broken();
  torch::jit::push(*stack, std::string(why ? why : ""));
}

inline void graph_abort(const OperatorHandle &, Stack *) { tpu_graph_abort(); }

inline void scratch(const OperatorHandle &, Stack *stack) {
  scratch_draws = torch::jit::pop(*stack).toBool() ? std::make_shared<PhiloxState>() : nullptr;
}

inline void register_graphs() {
  static auto *lib = new torch::Library(torch::Library::FRAGMENT, "tpu", std::nullopt, __FILE__, 0);
  using F = torch::CppFunction;
  lib->def("graph_new(str name, int device, bool inlined, bool fixed, int[] generic) -> int",
           F::makeFromBoxedFunction<&graph_new>());
  lib->def("graph_free(int graph) -> ()", F::makeFromBoxedFunction<&graph_free>());
  lib->def("graph_report(int graph) -> str", F::makeFromBoxedFunction<&graph_report>());
  lib->def("graph_programs(int graph) -> str", F::makeFromBoxedFunction<&graph_programs>());
  lib->def("graph_run(int graph, Tensor[] inputs, int[] numbers) -> (Tensor[]?, int[])",
           F::makeFromBoxedFunction<&graph_run>());
  lib->def("graph_begin(int graph, Tensor[] inputs, int[] numbers) -> ()",
           F::makeFromBoxedFunction<&graph_begin>());
  lib->def("graph_end(int device, Tensor[] outputs, int[] numbers) -> str",
           F::makeFromBoxedFunction<&graph_end>());
  lib->def("graph_broken() -> str", F::makeFromBoxedFunction<&graph_broken>());
  lib->def("graph_abort() -> ()", F::makeFromBoxedFunction<&graph_abort>());
  lib->def("scratch_draws(bool on) -> ()", F::makeFromBoxedFunction<&scratch>());
}

} // namespace tpu
