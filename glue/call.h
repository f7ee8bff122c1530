// Calls: from PyTorch's arguments to the plain C values of tpu.h, through tpu_dispatch, and back.
//
// Every argument has a one-letter kind, read off the schema (kinds_of) or off a C++ signature (Kind<T>):
//   T Tensor  W Tensor(a!)  t Tensor?  L Tensor[]  O Tensor?[]  S Scalar  s Scalar?  P Scalar[]  i int  j
//   int? I int[]  J int[]?  b bool  B bool?  A bool[]  d float  e float?  D float[]?  y ScalarType?  Y
//   ScalarType  c str  C str? g Generator?  l Layout?  v Device?  m MemoryFormat?  ? none of these
// Typed kernels (Family) are picked where the letters match; the boxed kernel serves the rest. The core sees
// no difference.
#pragma once

namespace tpu {

using at::Tensor;
using c10::IValue;
using c10::OperatorHandle;
using c10::ScalarType;
using torch::jit::Stack;

void fallback(const OperatorHandle &op, Stack *stack, const char *why);

// One registered kernel. Lives for ever.
struct Entry {
  const tpu_row *row;
  tpu_variant variant;
  OperatorHandle op;
  std::string kinds, returns; // of all arguments; of the results, 'W' = a written argument comes back
  int nargs;                  // without the out arguments
  int pad = -1;               // out form of a factory: where dtype, layout, device, pin_memory are missing
  int dtype_at = -1;          // where a factory takes its dtype
  bool random;
  bool floats;         // a factory of floats whatever its numbers are
  bool moves_indices;  // CPU index tensors are welcome
  bool moves_scalars;  // so are CPU tensors of one number an item (foreach)
  bool shared = false; // in place, elements of self may share a place
  bool updates;        // argument 0 is what the in-place form writes
  tpu_overlap overlap;
};

// --- tensors ---

inline Tensor make_tensor(c10::DataPtr &&p, size_t nbytes, int rank, const int64_t *sizes,
                          const int64_t *strides, ScalarType dtype) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), nbytes,
                                                       std::move(p), allocator(), /*resizable=*/true);
  auto t = c10::make_intrusive<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                c10::scalarTypeToTypeMeta(dtype));
  if (rank != 1 || sizes[0] != 0) // what a new TensorImpl is
    t->set_sizes_and_strides({sizes, size_t(rank)}, {strides, size_t(rank)});
  return Tensor(std::move(t));
}

inline Tensor from_result(const tpu_result &r) {
  if (!r.storage) return Tensor();
  return make_tensor(data_ptr(r.storage, DeviceIndex(r.device)), tpu_storage_nbytes(r.storage), r.rank,
                     r.sizes, r.strides, ScalarType(r.dtype));
}

inline Tensor tensor_of(void *handle) {
  return Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(
      static_cast<c10::TensorImpl *>(handle)));
}

// Fills the geometry; true when x is a tensor of ours or a CPU number.
inline bool to_c(tpu_tensor &t, const Tensor &x) {
  c10::TensorImpl *p = x.unsafeGetTensorImpl();
  const Device d = p->device();
  const auto sizes = p->sizes();
  t.handle = p;
  t.sizes = sizes.data(), t.rank = uint8_t(sizes.size());
  t.strides = p->strides().data();
  t.dtype = int16_t(p->dtype().toScalarType());
  t.offset = p->storage_offset();
  t.flags = uint8_t((p->is_wrapped_number() ? TPU_T_WRAPPED : 0) | (x.is_conj() ? TPU_T_CONJ : 0) |
                    (x.is_neg() ? TPU_T_NEG : 0));
  t.host = nullptr, t.storage = nullptr, t.device = -1;
  TORCH_CHECK(sizes.size() <= 255 && p->layout() == c10::Layout::Strided, "tpu: only strided tensors, got ",
              p->layout());
  if (d.type() == kTpu) {
    t.device = d.index();
    t.storage = storage_of(p->unsafe_storage().data_ptr());
    TORCH_CHECK(t.storage, "tpu: this tensor's storage holds no memory of ours");
    return true;
  }
  if (!d.is_cpu() || !sizes.empty()) return false;
  t.host = p->data();
  t.flags |= TPU_T_HOST;
  return true;
}

// --- one call ---

struct Frame {
  const Entry &e;
  tpu_call call{};
  int device = -1;        // of the first tpu tensor, or a factory's
  int at = 0;             // position of the argument being put
  bool elsewhere = false; // full_like(x, device=, memory_format=) that only the composite kernel knows
  at::Generator generator;
  std::vector<Tensor> kept;

  explicit Frame(const Entry &entry) : e(entry) {}
  ~Frame() {
    for (void *p : blocks) std::free(p);
  }

  template <class T> T *take(size_t n) {
    const size_t need = (n * sizeof(T) + 15) & ~size_t(15);
    if (used + need <= sizeof buf) return reinterpret_cast<T *>(buf + std::exchange(used, used + need));
    blocks.push_back(tpu_xmalloc(need));
    return static_cast<T *>(blocks.back());
  }

  [[noreturn]] void wrong_device(const Tensor &x) {
    const auto &arg = e.op.schema().arguments()[size_t(at)];
    TORCH_CHECK(device >= 0, "aten::", e.op.operator_name().name.substr(6), ": argument ", arg.name(),
                " is on ", x.device(), ", but a tpu tensor was expected");
    TORCH_CHECK(false,
                "Expected all tensors to be on the same device, but found at least two devices, tpu:", device,
                " and ", x.device(), "! (when checking argument for argument ", arg.name(),
                " in method wrapper_TPU_", e.op.schema().name().substr(6), ")");
  }

  void tensor(tpu_tensor &t, const Tensor &x) {
    if (!x.defined()) {
      t = {};
      t.flags = TPU_T_UNDEFINED;
      return;
    }
    if (C10_UNLIKELY(!to_c(t, x))) {
      if (stray < 0) stray = at, stray_tensor = x; // reported once the tpu device is known
    } else if (t.device >= 0 && t.device != device) {
      if (C10_UNLIKELY(device >= 0)) wrong_device(x);
      device = t.device;
    }
  }

  // Argument readers, one for each kind.
  void put(tpu_arg &a, const Tensor &x) {
    a.tag = x.defined() ? TPU_A_TENSOR : TPU_A_NONE;
    tpu_tensor *t = take<tpu_tensor>(1);
    if (C10_UNLIKELY(e.moves_scalars) && device >= 0 && x.is_cpu() && x.dim() == 1) {
      kept.push_back(x.to(Device(kTpu, DeviceIndex(device))));
      tensor(*t, kept.back());
    } else {
      tensor(*t, x);
    }
    a.u.t = t, a.n = 1;
  }
  void put(tpu_arg &a, const c10::Scalar &s) {
    a.n = 1;
    if (s.isFloatingPoint())
      a.tag = TPU_A_SCALAR_D, a.u.d = s.toDouble();
    else if (s.isBoolean())
      a.tag = TPU_A_SCALAR_B, a.u.i = s.toBool();
    else if (s.isComplex()) {
      double *c = take<double>(2);
      const auto z = s.toComplexDouble();
      c[0] = z.real(), c[1] = z.imag();
      a.tag = TPU_A_SCALAR_C, a.u.ds = c;
    } else
      a.tag = TPU_A_SCALAR_I, a.u.i = s.type() == ScalarType::UInt64 ? int64_t(s.toUInt64()) : s.toLong();
  }
  void put(tpu_arg &a, int64_t v) { a.tag = TPU_A_INT, a.u.i = v; }
  void put(tpu_arg &a, bool v) { a.tag = TPU_A_BOOL, a.u.i = v; }
  void put(tpu_arg &a, double v) { a.tag = TPU_A_DOUBLE, a.u.d = v; }
  void put(tpu_arg &a, ScalarType v) { a.tag = TPU_A_DTYPE, a.u.i = int64_t(v); }
  void put(tpu_arg &a, std::string_view v) {
    a.tag = TPU_A_STRING, a.u.s = v.data(), a.n = uint32_t(v.size());
  }
  void put(tpu_arg &a, c10::IntArrayRef v) {
    a.tag = TPU_A_INTS, a.u.is = v.data(), a.n = uint32_t(v.size());
  }
  void put(tpu_arg &a, const at::OptionalIntArrayRef &v) {
    if (v.has_value())
      put(a, *v);
    else
      a.tag = TPU_A_NONE;
  }
  void put(tpu_arg &a, const at::Generator &g) { a.tag = TPU_A_NONE, generator = g; }
  template <class T> void put(tpu_arg &a, const std::optional<T> &v) {
    if (v.has_value())
      put(a, *v);
    else
      a.tag = TPU_A_NONE;
  }
  void put(tpu_arg &a, const at::ITensorListRef &list) {
    tpu_tensor *t = take<tpu_tensor>(list.size());
    a.tag = TPU_A_TENSORS, a.u.t = t, a.n = uint32_t(list.size());
    for (const Tensor &x : list) tensor(*t++, x);
  }
  void put(tpu_arg &a, const c10::List<std::optional<Tensor>> &list) {
    tpu_tensor *t = take<tpu_tensor>(list.size());
    a.tag = TPU_A_TENSORS, a.u.t = t, a.n = uint32_t(list.size());
    for (size_t i = 0; i < list.size(); i++) index(*t++, list[i]);
  }
  void index(tpu_tensor &t, const std::optional<Tensor> &given) {
    if (!given.has_value() || !given->defined()) return tensor(t, Tensor());
    if (e.moves_indices && given->is_cpu() && device >= 0)
      kept.push_back(given->to(Device(kTpu, DeviceIndex(device))));
    else
      kept.push_back(*given);
    tensor(t, kept.back());
  }
  void put(tpu_arg &a, char kind, const IValue &v);

  // Overlaps would do no harm here; they are refused where torch's own kernel does, in its words.
  void refuse_overlap() {
    for (int k = 0; k < call.nouts; k++) {
      auto *out = static_cast<c10::TensorImpl *>(call.outs[k].handle);
      if (!out) continue;
      if (!e.shared) at::assert_no_internal_overlap(out);
      for (int i = 0; i < call.nargs && e.overlap != TPU_OVERLAP_FREE; i++) {
        const tpu_arg &a = call.args[i];
        const bool list = a.tag == TPU_A_TENSORS, paired = list && int(a.n) == call.nouts; // foreach
        if (!list && a.tag != TPU_A_TENSOR) continue;
        for (uint32_t j = paired ? uint32_t(k) : 0; j < (paired ? uint32_t(k) + 1 : a.n); j++)
          if (a.u.t[j].storage == call.outs[k].storage) refuse_overlap(out, a.u.t[j], i);
      }
    }
  }
  void refuse_overlap(c10::TensorImpl *out, const tpu_tensor &t, int i) {
    if (e.overlap == TPU_OVERLAP_NONE && !(i == 0 && e.updates))
      at::assert_no_overlap(tensor_of(out), tensor_of(t.handle));
    else if (e.overlap != TPU_OVERLAP_SELF || i == 0)
      at::assert_no_partial_overlap(tensor_of(out), tensor_of(t.handle));
  }

  bool run();
  bool draw();

private:
  int stray = -1;
  Tensor stray_tensor;
  size_t used = 0;
  c10::SmallVector<void *, 2> blocks;
  alignas(16) char buf[1536];
};

template <class T, class F> static T *each(Frame &f, const IValue &list, tpu_arg &a, tpu_tag tag, F convert) {
  const auto items = list.toListRef();
  T *p = f.take<T>(items.size());
  a.tag = tag, a.n = uint32_t(items.size());
  for (size_t i = 0; i < items.size(); i++) convert(p[i], items[i]);
  return p;
}

inline int64_t int_of(const IValue &v) {
  return v.isInt() ? v.toInt() : v.toSymInt().guard_int(__FILE__, __LINE__);
}
inline double double_of(const IValue &v) {
  return v.isDouble() ? v.toDouble() : v.toSymFloat().guard_float(__FILE__, __LINE__);
}

// The boxed reader: `kind` says what the schema promises.
void Frame::put(tpu_arg &a, char kind, const IValue &v) {
  if (v.isNone()) {
    a.tag = TPU_A_NONE;
    return;
  }
  switch (kind) {
  case 'T':
  case 'W':
  case 't': return put(a, v.toTensor());
  case 'L':
    a.u.t = each<tpu_tensor>(*this, v, a, TPU_A_TENSORS, [&](auto &t, auto &x) { tensor(t, x.toTensor()); });
    return;
  case 'O':
    a.u.t = each<tpu_tensor>(*this, v, a, TPU_A_TENSORS, [&](auto &t, auto &x) {
      index(t, x.isNone() ? std::nullopt : std::optional<Tensor>(x.toTensor()));
    });
    return;
  case 'S':
  case 's': return put(a, v.toScalar());
  case 'P':
    a.u.as = each<tpu_arg>(*this, v, a, TPU_A_SCALARS, [&](auto &t, auto &x) { put(t, x.toScalar()); });
    return;
  case 'i':
  case 'j':
  case 'l': return put(a, int_of(v));
  case 'm':
    elsewhere |= c10::MemoryFormat(int_of(v)) != c10::MemoryFormat::Preserve;
    return put(a, int_of(v));
  case 'I':
  case 'J': a.u.is = each<int64_t>(*this, v, a, TPU_A_INTS, [](auto &t, auto &x) { t = int_of(x); }); return;
  case 'A':
    a.u.is = each<int64_t>(*this, v, a, TPU_A_BOOLS, [](auto &t, auto &x) { t = x.toBool(); });
    return;
  case 'D':
    a.u.ds = each<double>(*this, v, a, TPU_A_DOUBLES, [](auto &t, auto &x) { t = double_of(x); });
    return;
  case 'b':
  case 'B': return put(a, v.toBool());
  case 'd':
  case 'e': return put(a, double_of(v));
  case 'y':
  case 'Y': return put(a, ScalarType(v.toInt()));
  case 'c':
  case 'C': return put(a, std::string_view(v.toStringRef()));
  case 'g': return put(a, v.toGenerator());
  case 'v': {
    const Device d = v.toDevice(), want = d.type() == kTpu ? checked(d) : d;
    if (device < 0) device = want.index();
    elsewhere |= want.type() != kTpu || want.index() != device;
    return put(a, int64_t(want.index()));
  }
  default: TORCH_INTERNAL_ASSERT(false, "argument kind ", kind);
  }
}

// torch.set_default_dtype is a global of PyTorch's; the core has its own copy.
inline void tell_default_dtype() {
  static std::atomic<ScalarType> told{ScalarType::Float};
  const ScalarType now = c10::get_default_dtype_as_scalartype();
  if (C10_LIKELY(told.load(std::memory_order_relaxed) == now)) return;
  tpu_set_default_dtype(int(now));
  told = now;
}

// False: declined, nothing happened.
bool Frame::run() {
  if (C10_UNLIKELY(stray >= 0)) at = stray, wrong_device(stray_tensor);
  for (int i = 0; i < call.nouts; i++)
    TORCH_CHECK(!(call.outs[i].flags & TPU_T_HOST),
                "Expected all tensors to be on the same device, but found at least two ",
                "devices, tpu:", device, " and cpu! (a CPU tensor cannot receive the result)");
  if (call.nouts) refuse_overlap();
  tell_default_dtype();
  call.row = e.row, call.variant = e.variant;
  call.device = device_or_current(DeviceIndex(device));
  if (C10_UNLIKELY(e.random)) return draw();
  check(tpu_dispatch(&call));
  return !call.declined;
}

// A random op takes its counters from the generator; whoever seeds it meanwhile wins.
bool Frame::draw() {
  if (!generator.defined()) generator = default_generator(DeviceIndex(call.device));
  auto *g = dynamic_cast<Generator *>(generator.unsafeGetGeneratorImpl());
  TORCH_CHECK(g, "Expected a 'tpu' device type for generator but found '", generator.device().type(), "'");
  const auto state = g->source();
  PhiloxState &s = *state;
  std::lock_guard<std::mutex> hold(s.draw);
  const tpu_philox before = g->get();
  tpu_philox now = before;
  call.philox = &now;
  check(tpu_dispatch(&call));
  std::lock_guard<std::mutex> moment(s.short_);
  if (s.v.seed == before.seed && s.v.offset == before.offset) s.v = now;
  return !call.declined;
}

// --- the boxed kernel ---

struct Boxed final : c10::OperatorKernel {
  const Entry *e;
  explicit Boxed(const Entry *entry) : e(entry) {}

  void operator()(const OperatorHandle &, c10::DispatchKeySet, Stack *stack) {
    Frame f(*e);
    const size_t all = e->kinds.size(), base = stack->size() - all;
    const int padded = e->nargs + (e->pad < 0 ? 0 : 4);
    tpu_arg *args = f.take<tpu_arg>(size_t(padded)), *a = args;
    for (f.at = 0; f.at < e->nargs; f.at++) {
      if (f.at == e->pad)
        for (int k = 0; k < 4; k++) (a++)->tag = TPU_A_NONE;
      f.put(*a++, e->kinds[size_t(f.at)], (*stack)[base + size_t(f.at)]);
    }
    while (a < args + padded) (a++)->tag = TPU_A_NONE;
    f.call.args = args, f.call.nargs = padded;
    if (C10_UNLIKELY(e->dtype_at >= 0)) default_dtype(args);
    outs(f, *stack, base);
    if (C10_UNLIKELY(e->pad >= 0)) // a factory makes what it is to write
      args[e->pad].tag = TPU_A_DTYPE, args[e->pad].u.i = f.call.outs[0].dtype;
    if (C10_UNLIKELY(f.elsewhere) &&
        e->op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd))
      e->op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, *stack);
    else if (f.run())
      finish(f, *stack, base);
    else
      fallback(e->op, stack, f.call.declined);
  }

private:
  // torch.set_default_dtype: the core knows float32 alone.
  void default_dtype(tpu_arg *args) const {
    const ScalarType t = c10::get_default_dtype_as_scalartype();
    if (t == ScalarType::Float || args[e->dtype_at].tag != TPU_A_NONE) return;
    bool floats = e->floats;
    for (int i = 0; i < e->dtype_at; i++) floats |= args[i].tag == TPU_A_SCALAR_D;
    if (floats) args[e->dtype_at].tag = TPU_A_DTYPE, args[e->dtype_at].u.i = int64_t(t);
  }
  void outs(Frame &f, Stack &stack, size_t base) const {
    if (e->variant == TPU_INPLACE) {
      const size_t self = first_written();
      f.call.outs = f.call.args[self].u.t, f.call.nouts = int(f.call.args[self].n);
    } else if (e->variant >= TPU_OUT) {
      size_t n = 0;
      const size_t first = size_t(e->nargs), all = e->kinds.size();
      for (size_t i = first; i < all; i++)
        n += stack[base + i].isTensor() ? 1 : stack[base + i].toListRef().size();
      tpu_tensor *t = f.take<tpu_tensor>(n);
      f.call.outs = t, f.call.nouts = int(n);
      for (size_t i = first; i < all; i++) {
        f.at = int(i);
        if (stack[base + i].isTensor())
          f.tensor(*t++, stack[base + i].toTensor());
        else
          for (const IValue &x : stack[base + i].toListRef()) f.tensor(*t++, x.toTensor());
      }
    }
  }
  size_t first_written() const {
    const auto &args = e->op.schema().arguments();
    for (size_t i = 0; i < args.size(); i++)
      if (args[i].alias_info() && args[i].alias_info()->isWrite()) return i;
    return 0;
  }
  void finish(Frame &f, Stack &stack, size_t base) const {
    c10::SmallVector<IValue, 4> results;
    int next = 0;
    size_t written = e->variant >= TPU_OUT ? size_t(e->nargs) : first_written();
    for (const char r : e->returns) {
      if (r == 'W')
        results.emplace_back(stack[base + written++]);
      else if (r == 'T')
        results.emplace_back(next < f.call.nresults ? from_result(f.call.results[next]) : Tensor()), next++;
      else if (r == 'L') {
        c10::List<Tensor> list;
        while (next < f.call.nresults) list.push_back(from_result(f.call.results[next++]));
        results.emplace_back(std::move(list));
      } else
        results.emplace_back(int64_t(0)); // sizes that only the backward of the same row reads
    }
    stack.resize(base);
    for (IValue &v : results) stack.push_back(std::move(v));
  }
};

// --- typed kernels ---

template <class T> struct Kind;
#define KIND(type, letter)                \
  template <> struct Kind<type> {         \
    static constexpr char value = letter; \
  };
// clang-format off
KIND(const Tensor &, 'T')
KIND(Tensor &, 'W')
KIND(const std::optional<Tensor> &, 't')
KIND(const at::ITensorListRef &, 'L')
KIND(const c10::List<std::optional<Tensor>> &, 'O')
KIND(const c10::Scalar &, 'S')
KIND(const std::optional<c10::Scalar> &, 's')
KIND(int64_t, 'i')
KIND(std::optional<int64_t>, 'j')
KIND(c10::IntArrayRef, 'I')
KIND(at::OptionalIntArrayRef, 'J')
KIND(bool, 'b')
KIND(std::optional<bool>, 'B')
KIND(double, 'd')
KIND(std::optional<ScalarType>, 'y')
KIND(ScalarType, 'Y')
KIND(std::string_view, 'c')
KIND(std::optional<std::string_view>, 'C')
KIND(std::optional<at::Generator>, 'g')
// clang-format on
#undef KIND

template <class R> struct Results {
  static constexpr const char *key = ">T";
  static R get(const tpu_result *r) { return from_result(r[0]); }
  static R pop(const Stack &s) { return s[0].toTensor(); }
};
template <> struct Results<Tensor &> {
  static constexpr const char *key = ">W";
};
template <> struct Results<std::tuple<Tensor, Tensor>> {
  static constexpr const char *key = ">TT";
  static auto get(const tpu_result *r) { return std::tuple(from_result(r[0]), from_result(r[1])); }
  static auto pop(const Stack &s) { return std::tuple(s[0].toTensor(), s[1].toTensor()); }
};
template <> struct Results<std::tuple<Tensor, Tensor, Tensor>> {
  static constexpr const char *key = ">TTT";
  static auto get(const tpu_result *r) {
    return std::tuple(from_result(r[0]), from_result(r[1]), from_result(r[2]));
  }
  static auto pop(const Stack &s) { return std::tuple(s[0].toTensor(), s[1].toTensor(), s[2].toTensor()); }
};

template <class R, class... A> struct Family {
  static std::string key() { return std::string{Kind<A>::value...} + Results<R>::key; }

  static R call(const Entry &e, A... a) {
    Frame f(e);
    tpu_arg args[sizeof...(A)];
    ((f.put(args[f.at], a), f.at++), ...);
    f.call.args = args, f.call.nargs = sizeof...(A);
    if constexpr (std::is_same_v<R, Tensor &>) {
      f.call.outs = args[0].u.t, f.call.nouts = 1;
      if (!f.run()) declined(f, a...);
      return std::get<0>(std::tie(a...));
    } else {
      return f.run() ? Results<R>::get(f.call.results) : Results<R>::pop(declined(f, a...));
    }
  }
  static Stack declined(Frame &f, A... a) {
    Stack s;
    (s.emplace_back(a), ...);
    fallback(f.e.op, &s, f.call.declined);
    return s;
  }
  static torch::CppFunction bind(const Entry *e) {
    return torch::CppFunction([e](A... a) -> R { return call(*e, std::forward<A>(a)...); });
  }
};

using Bind = torch::CppFunction (*)(const Entry *);

// The signatures worth a typed kernel: a line each, with the ops that it is for.
const std::map<std::string, Bind> &families() {
  using T = const Tensor &;
  using O = const std::optional<Tensor> &;
  using L = const at::ITensorListRef &;
  using X = const c10::List<std::optional<Tensor>> &;
  using S = const c10::Scalar &;
  using Q = const std::optional<c10::Scalar> &;
  using N = int64_t;
  using I = c10::IntArrayRef;
  using J = at::OptionalIntArrayRef;
  using Y = std::optional<ScalarType>;
  using C = std::string_view;
  using D = std::optional<std::string_view>;
  using G = std::optional<at::Generator>;
  using W = Tensor &;
  using R = Tensor;
  using R2 = std::tuple<R, R>;
  using R3 = std::tuple<R, R, R>;
#define F(...) \
  { Family<__VA_ARGS__>::key(), &Family<__VA_ARGS__>::bind }
  // clang-format off
  static const auto *map = new std::map<std::string, Bind>{
    F(R, T),                                          // relu, exp
    F(R, T, T), F(R, T, T, T),                        // mul, mm, eq, maximum; where
    F(R, T, S), F(R, T, S, S), F(R, T, Q, Q),         // mul.Scalar, pow.Tensor_Scalar; add.Scalar; clamp
    F(R, T, T, S), F(R, T, T, D), F(R, T, T, double), // add, sub, threshold_backward; div; dropout backward
    F(R, T, T, T, S), F(R, T, T, T, S, S),            // addcmul; addmm
    F(R, T, C), F(R, T, T, C), F(R, T, T, S, bool),   // gelu and backward; leaky_relu_backward
    F(R, T, N), F(R, T, N, bool), F(R, T, N, Y),      // triu; _softmax; cumsum
    F(R, T, std::optional<N>, bool),                  // argmax
    F(R, T, T, N, ScalarType),                        // _softmax_backward_data
    F(R, T, N, T), F(R, T, N, T, bool),               // index_select; gather
    F(R, T, Y), F(R, T, J, bool, Y),                  // sum, mean
    F(R, T, I), F(R, T, I, bool),                     // flip, repeat; amax
    F(R, T, X), F(R, T, X, T, bool),                  // index; index_put
    F(R, T, T, N, bool, bool), F(R, T, T, N, N, bool),// embedding and backward
    F(R, T, T, O, I, I, I, bool, I, N),               // convolution_overrideable
    F(R, L, N),                                       // cat
    F(R2, T, N, bool), F(R2, T, double, std::optional<bool>), // max.dim, sort; native_dropout
    F(R3, T, I, O, O, double),                        // native_layer_norm
    F(W, W), F(W, W, T), F(W, W, S),                  // zero_, relu_; mul_; fill_
    F(W, W, T, S), F(W, W, S, S), F(W, W, T, T), F(W, W, T, T, S), // add_, masked_fill_, addcmul_
    F(W, W, double, double, G),                       // uniform_, normal_
  };
  // clang-format on
#undef F
  return *map;
}

} // namespace tpu
