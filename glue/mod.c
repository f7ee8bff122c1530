/* torch_tpu._C: the functions of core/tpu.h and glue.h, one Python function each. The only file that sees
 * Python.h, and of it only the stable part. Whatever may wait runs without the GIL. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "glue.h"
#include "tpu.h"

/* --- errors --- */

static PyObject *attribute(const char *module, const char *name) {
  PyObject *m = PyImport_ImportModule(module);
  PyObject *x = m ? PyObject_GetAttrString(m, name) : NULL;
  Py_XDECREF(m);
  return x;
}

/* Raises what `e` says, as error.def names it. */
static PyObject *raise_error(tpu_error *e) {
  PyObject *type = NULL;
  switch (tpu_error_code(e)) {
  case TPU_VALUE: type = Py_NewRef(PyExc_ValueError); break;
  case TPU_TYPE: type = Py_NewRef(PyExc_TypeError); break;
  case TPU_INDEX: type = Py_NewRef(PyExc_IndexError); break;
  case TPU_NOT_IMPLEMENTED: type = Py_NewRef(PyExc_NotImplementedError); break;
  case TPU_INTERRUPTED: type = Py_NewRef(PyExc_KeyboardInterrupt); break;
  case TPU_OUT_OF_MEMORY: type = attribute("torch", "OutOfMemoryError"); break;
  case TPU_LINALG: type = attribute("torch.linalg", "LinAlgError"); break;
  default: type = Py_NewRef(PyExc_RuntimeError);
  }
  if (type) PyErr_SetString(type, tpu_error_message(e));
  Py_XDECREF(type);
  tpu_error_free(e);
  return NULL;
}

static PyObject *done(tpu_error *e) {
  if (e) return raise_error(e);
  Py_RETURN_NONE;
}

#define WITHOUT_GIL(statement)                 \
  do {                                         \
    PyThreadState *save = PyEval_SaveThread(); \
    statement;                                 \
    PyEval_RestoreThread(save);                \
  } while (0)

/* Polled by the core during a long compile, on whatever thread waits. The exception of the handler is
 * dropped: the error that the wait ends with raises KeyboardInterrupt. */
static int interrupted(void) {
  if (!Py_IsInitialized()) return 0;
  PyGILState_STATE state = PyGILState_Ensure();
  const int stop = PyErr_CheckSignals() != 0;
  if (stop) PyErr_Clear();
  PyGILState_Release(state);
  return stop;
}

/* --- life --- */

static PyObject *mod_init(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  const char *why = tpu_glue_init();
  if (why) {
    PyErr_SetString(PyExc_RuntimeError, why);
    return NULL;
  }
  tpu_glue_set_interrupt_type(PyExc_KeyboardInterrupt);
  tpu_set_interrupt_hook(interrupted);
  Py_RETURN_NONE;
}

static PyObject *mod_open(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  tpu_error *e;
  WITHOUT_GIL(e = tpu_open());
  return done(e);
}

static PyObject *mod_is_open(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  return PyBool_FromLong(tpu_is_open());
}

static PyObject *mod_shutdown(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  bool finished;
  WITHOUT_GIL(finished = tpu_shutdown());
  return PyBool_FromLong(finished);
}

static PyObject *mod_add_plugin_candidate(PyObject *self, PyObject *args) {
  (void)self;
  const char *path, *why;
  int is_cpu;
  if (!PyArg_ParseTuple(args, "ssp", &path, &why, &is_cpu)) return NULL;
  tpu_add_plugin_candidate(path, why, is_cpu);
  Py_RETURN_NONE;
}

/* --- devices --- */

static PyObject *mod_device_count(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  return PyLong_FromLong(tpu_device_count());
}

static PyObject *mod_device_check(PyObject *self, PyObject *args) {
  (void)self;
  int device;
  if (!PyArg_ParseTuple(args, "i", &device)) return NULL;
  return done(tpu_device_check(device));
}

static PyObject *mod_synchronize(PyObject *self, PyObject *args) {
  (void)self;
  int device;
  if (!PyArg_ParseTuple(args, "i", &device)) return NULL;
  tpu_error *e;
  WITHOUT_GIL(e = tpu_synchronize(device));
  return done(e);
}

static PyObject *mod_flush(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  tpu_error *e;
  WITHOUT_GIL(e = tpu_flush());
  return done(e);
}

/* --- modes --- */

static PyObject *mod_get_mode(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  return PyLong_FromLong(tpu_get_mode());
}

static PyObject *mod_set_mode(PyObject *self, PyObject *args) {
  (void)self;
  int mode;
  if (!PyArg_ParseTuple(args, "i", &mode)) return NULL;
  tpu_error *e;
  WITHOUT_GIL(e = tpu_set_mode((tpu_mode)mode));
  return done(e);
}

static PyObject *mod_set_matmul_precision(PyObject *self, PyObject *args) {
  (void)self;
  int precision;
  if (!PyArg_ParseTuple(args, "i", &precision)) return NULL;
  tpu_set_matmul_precision(precision);
  Py_RETURN_NONE;
}

static PyObject *mod_sizes_auto(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  return PyBool_FromLong(tpu_sizes_auto());
}

static PyObject *mod_set_sizes_auto(PyObject *self, PyObject *args) {
  (void)self;
  int on;
  if (!PyArg_ParseTuple(args, "p", &on)) return NULL;
  tpu_set_sizes_auto(on);
  Py_RETURN_NONE;
}

/* --- memory --- */

static PyObject *mod_memory(PyObject *self, PyObject *args) {
  (void)self;
  int device;
  if (!PyArg_ParseTuple(args, "i", &device)) return NULL;
  tpu_memory m;
  WITHOUT_GIL(tpu_memory_stats(device, &m));
  return Py_BuildValue("{sLsLsLsLsLsLsLsLsLsLsLsd}", "allocated", (long long)m.allocated, "allocated_peak",
                       (long long)m.allocated_peak, "buffers", (long long)m.buffers, "buffers_peak",
                       (long long)m.buffers_peak, "allocated_total", (long long)m.allocated_total,
                       "freed_total", (long long)m.freed_total, "buffers_total", (long long)m.buffers_total,
                       "buffers_freed_total", (long long)m.buffers_freed_total, "limit", (long long)m.limit,
                       "ooms", (long long)m.ooms, "retries", (long long)m.retries, "fraction", 1 - m.all_but);
}

static PyObject *mod_memory_set_fraction(PyObject *self, PyObject *args) {
  (void)self;
  int device;
  double fraction;
  if (!PyArg_ParseTuple(args, "id", &device, &fraction)) return NULL;
  WITHOUT_GIL(tpu_memory_set_fraction(device, fraction));
  Py_RETURN_NONE;
}

static PyObject *mod_memory_reset_peak(PyObject *self, PyObject *args) {
  (void)self;
  int device;
  if (!PyArg_ParseTuple(args, "i", &device)) return NULL;
  WITHOUT_GIL(tpu_memory_reset_peak(device));
  Py_RETURN_NONE;
}

static PyObject *mod_memory_reset_accumulated(PyObject *self, PyObject *args) {
  (void)self;
  int device;
  if (!PyArg_ParseTuple(args, "i", &device)) return NULL;
  WITHOUT_GIL(tpu_memory_reset_accumulated(device));
  Py_RETURN_NONE;
}

/* --- reports, as JSON text --- */

static PyObject *json_of(char *s) {
  PyObject *text = PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s), "replace");
  free(s);
  return text;
}

static PyObject *text_of(char *(*make)(void)) {
  char *s;
  WITHOUT_GIL(s = make());
  return json_of(s);
}

#define REPORT(name, function)                            \
  static PyObject *name(PyObject *self, PyObject *args) { \
    (void)self, (void)args;                               \
    return text_of(function);                             \
  }
REPORT(mod_info, tpu_info_json)
REPORT(mod_compile_stats, tpu_compile_stats_json)
REPORT(mod_trace, tpu_trace_json)
REPORT(mod_explain_sizes, tpu_sizes_json)
REPORT(mod_fallback_report, tpu_fallback_json)
REPORT(mod_registration, tpu_glue_report)

/* cache_list(directory or None, check, fix) */
static PyObject *mod_cache_list(PyObject *self, PyObject *args) {
  (void)self;
  const char *dir;
  int check, fix;
  if (!PyArg_ParseTuple(args, "zpp", &dir, &check, &fix)) return NULL;
  char *s;
  WITHOUT_GIL(s = tpu_cache_list_json(dir, check, fix));
  return json_of(s);
}

/* cache_prune(directory or None, bytes or -1, seconds or -1) */
static PyObject *mod_cache_prune(PyObject *self, PyObject *args) {
  (void)self;
  const char *dir;
  long long most, seconds;
  if (!PyArg_ParseTuple(args, "zLL", &dir, &most, &seconds)) return NULL;
  char *s;
  WITHOUT_GIL(s = tpu_cache_prune_json(dir, most, seconds));
  return json_of(s);
}

static PyObject *mod_cache_export(PyObject *self, PyObject *args) {
  (void)self;
  const char *name;
  if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
  char *bytes;
  size_t n;
  const bool found = tpu_cache_export(name, &bytes, &n);
  PyObject *result = found ? PyBytes_FromStringAndSize(bytes, (Py_ssize_t)n) : Py_NewRef(Py_None);
  free(bytes);
  return result;
}

static PyObject *mod_cache_import(PyObject *self, PyObject *args) {
  (void)self;
  PyObject *bytes;
  char *p;
  Py_ssize_t n;
  if (!PyArg_ParseTuple(args, "S", &bytes) || PyBytes_AsStringAndSize(bytes, &p, &n)) return NULL;
  return PyBool_FromLong(tpu_cache_import(p, (size_t)n));
}

#define ACTION(name, function)                            \
  static PyObject *name(PyObject *self, PyObject *args) { \
    (void)self, (void)args;                               \
    WITHOUT_GIL(function());                              \
    Py_RETURN_NONE;                                       \
  }
ACTION(mod_reset_compile_stats, tpu_reset_compile_stats)
ACTION(mod_clear_programs, tpu_clear_programs)
ACTION(mod_fallback_reset, tpu_fallback_reset)

static PyObject *mod_get_fallback(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  return PyLong_FromLong(tpu_glue_get_fallback());
}

static PyObject *mod_set_fallback(PyObject *self, PyObject *args) {
  (void)self;
  int policy;
  if (!PyArg_ParseTuple(args, "i", &policy)) return NULL;
  tpu_glue_set_fallback(policy);
  Py_RETURN_NONE;
}

static PyObject *mod_rows(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < tpu_num_rows(); i++) {
    PyObject *name = PyUnicode_FromString(tpu_row_name(tpu_row_at(i)));
    if (!name || PyList_Append(list, name)) Py_CLEAR(list);
    Py_XDECREF(name);
  }
  return list;
}

/* --- hooks of the tests --- */

static int int64s(PyObject *list, int64_t out[8]) {
  const Py_ssize_t n = PySequence_Size(list);
  if (n < 0) return -1;
  if (n > 8) {
    PyErr_SetString(PyExc_ValueError, "at most 8 dims");
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *x = PySequence_GetItem(list, i);
    out[i] = x ? PyLong_AsLongLong(x) : -1;
    Py_XDECREF(x);
    if (PyErr_Occurred()) return -1;
  }
  return (int)n;
}

/* mark_generic(data_ptr of the storage, dtype, sizes, strides, offset, dim, rung, fill) */
static PyObject *mod_mark_generic(PyObject *self, PyObject *args) {
  (void)self;
  unsigned long long address;
  int dtype, dim;
  PyObject *sizes, *strides;
  long long offset, rung;
  double fill;
  if (!PyArg_ParseTuple(args, "KiOOLiLd", &address, &dtype, &sizes, &strides, &offset, &dim, &rung, &fill))
    return NULL;
  int64_t size[8], stride[8];
  const int rank = int64s(sizes, size);
  if (rank < 0 || int64s(strides, stride) != rank) return NULL;
  tpu_tensor t = {.storage = tpu_storage_find((const void *)(uintptr_t)address),
                  .sizes = size,
                  .strides = stride,
                  .offset = offset,
                  .dtype = (int16_t)dtype,
                  .rank = (uint8_t)rank};
  if (!t.storage) {
    PyErr_SetString(PyExc_ValueError, "the address belongs to no tpu storage");
    return NULL;
  }
  t.device = (int16_t)tpu_storage_device(t.storage);
  tpu_error *e;
  WITHOUT_GIL(e = tpu_debug_mark_generic(&t, dim, rung, fill));
  return done(e);
}

static PyObject *mod_disable_masks(PyObject *self, PyObject *args) {
  (void)self;
  int off;
  if (!PyArg_ParseTuple(args, "p", &off)) return NULL;
  return PyLong_FromLongLong(tpu_debug_disable_masks(off));
}

static PyObject *mod_time_launches(PyObject *self, PyObject *args) {
  (void)self;
  int on;
  if (!PyArg_ParseTuple(args, "p", &on)) return NULL;
  return PyFloat_FromDouble(tpu_debug_time_launches(on));
}

static PyObject *mod_storage_version(PyObject *self, PyObject *args) {
  (void)self;
  unsigned long long address;
  if (!PyArg_ParseTuple(args, "K", &address)) return NULL;
  tpu_storage *s = tpu_storage_find((const void *)(uintptr_t)address);
  return PyLong_FromUnsignedLongLong(s ? tpu_storage_version(s) : 0);
}

#define NOARGS(name)  {#name, mod_##name, METH_NOARGS, NULL}
#define VARARGS(name) {#name, mod_##name, METH_VARARGS, NULL}
static PyMethodDef methods[] = {NOARGS(init),
                                NOARGS(open),
                                NOARGS(is_open),
                                NOARGS(shutdown),
                                VARARGS(add_plugin_candidate),
                                NOARGS(device_count),
                                VARARGS(device_check),
                                VARARGS(synchronize),
                                NOARGS(flush),
                                NOARGS(get_mode),
                                VARARGS(set_mode),
                                VARARGS(set_matmul_precision),
                                NOARGS(sizes_auto),
                                VARARGS(set_sizes_auto),
                                VARARGS(memory),
                                VARARGS(memory_set_fraction),
                                VARARGS(memory_reset_peak),
                                VARARGS(memory_reset_accumulated),
                                NOARGS(info),
                                NOARGS(compile_stats),
                                NOARGS(reset_compile_stats),
                                NOARGS(trace),
                                NOARGS(explain_sizes),
                                NOARGS(clear_programs),
                                VARARGS(cache_list),
                                VARARGS(cache_prune),
                                VARARGS(cache_export),
                                VARARGS(cache_import),
                                NOARGS(fallback_report),
                                NOARGS(fallback_reset),
                                NOARGS(get_fallback),
                                VARARGS(set_fallback),
                                NOARGS(registration),
                                NOARGS(rows),
                                VARARGS(mark_generic),
                                VARARGS(disable_masks),
                                VARARGS(time_launches),
                                VARARGS(storage_version),
                                {NULL, NULL, 0, NULL}};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "torch_tpu._C", .m_size = -1,
                             .m_methods = methods};

PyMODINIT_FUNC PyInit__C(void);
PyMODINIT_FUNC PyInit__C(void) { return PyModule_Create(&module); }
