// Structural ops typed by hand: they make, view, copy and rebind storages, and compute nothing.
#pragma once

namespace at::native { // exported by libtorch_cpu; their headers cost seconds
TORCH_API Tensor view(const Tensor &, IntArrayRef);
TORCH_API Tensor as_strided_tensorimpl(const Tensor &, IntArrayRef, IntArrayRef, std::optional<int64_t>);
TORCH_API Tensor _reshape_alias(const Tensor &, IntArrayRef, IntArrayRef);
TORCH_API Tensor view_as_real(const Tensor &);
TORCH_API Tensor view_as_complex(const Tensor &);
TORCH_API Tensor unfold(const Tensor &, int64_t, int64_t, int64_t);
TORCH_API bool is_set_to(const Tensor &, const Tensor &);
TORCH_API bool resize_output(const Tensor &, IntArrayRef);
using fused_sdp_choice_fn = int64_t (*)(const Tensor &, const Tensor &, const Tensor &,
                                        const std::optional<Tensor> &, double, bool, std::optional<double>,
                                        bool);
DECLARE_DISPATCH(fused_sdp_choice_fn, _fused_sdp_choice_stub)
} // namespace at::native
namespace at {
TORCH_API std::vector<int64_t> infer_dense_strides(IntArrayRef, IntArrayRef);
} // namespace at

namespace tpu {

using c10::IntArrayRef;
using c10::MemoryFormat;

// --- making ---

inline void no_pin(std::optional<bool> pin) {
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
}

Tensor blank(DeviceIndex device, size_t nbytes, IntArrayRef sizes, IntArrayRef strides, ScalarType dtype) {
  return make_tensor(Allocator::allocate_on(device, nbytes), nbytes, int(sizes.size()), sizes.data(),
                     strides.data(), dtype);
}

Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, std::optional<ScalarType> dtype,
                     std::optional<c10::Layout>, std::optional<Device> device, std::optional<bool> pin) {
  no_pin(pin);
  TORCH_CHECK(sizes.size() == strides.size(), "dimensionality of sizes (", sizes.size(),
              ") must match dimensionality of strides (", strides.size(), ")");
  at::detail::check_size_nonnegative(sizes);
  const ScalarType t = dtype.value_or(c10::get_default_dtype_as_scalartype());
  const size_t nbytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(t));
  return blank(checked(device.value_or(Device(kTpu))).index(), nbytes, sizes, strides, t);
}

Tensor empty(IntArrayRef sizes, std::optional<ScalarType> dtype, std::optional<c10::Layout>,
             std::optional<Device> device, std::optional<bool> pin, std::optional<MemoryFormat> format) {
  no_pin(pin);
  at::detail::check_size_nonnegative(sizes);
  const ScalarType t = dtype.value_or(c10::get_default_dtype_as_scalartype());
  const size_t nbytes = at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(t));
  c10::SmallVector<int64_t, 8> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= std::max<int64_t>(sizes[i], 1)) strides[i] = stride;
  Tensor x = blank(checked(device.value_or(Device(kTpu))).index(), nbytes, sizes, strides, t);
  if (format.has_value() && *format != MemoryFormat::Contiguous)
    x.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return x;
}

// torch.utils.deterministic.fill_uninitialized_memory: NaN, or the greatest integer.
bool fills_new_memory() {
  const auto &c = at::globalContext();
  return c.deterministicAlgorithms() && c.deterministicFillUninitializedMemory();
}

Tensor fill_new(Tensor x) {
  const ScalarType t = x.scalar_type();
  const unsigned bits = unsigned(8 * x.itemsize() - c10::isSignedType(t));
  if (t == ScalarType::Bool)
    x.fill_(true);
  else if (c10::isIntegralType(t, false))
    x.fill_(c10::Scalar(~uint64_t(0) >> (64 - bits)));
  else
    x.fill_(std::numeric_limits<double>::quiet_NaN());
  return x;
}

Tensor new_empty(IntArrayRef sizes, std::optional<ScalarType> dtype, std::optional<c10::Layout> layout,
                 std::optional<Device> device, std::optional<bool> pin, std::optional<MemoryFormat> format) {
  Tensor x = empty(sizes, dtype, layout, device, pin, format);
  return C10_UNLIKELY(fills_new_memory()) ? fill_new(std::move(x)) : x;
}

Tensor new_empty_strided(IntArrayRef sizes, IntArrayRef strides, std::optional<ScalarType> dtype,
                         std::optional<c10::Layout> layout, std::optional<Device> device,
                         std::optional<bool> pin) {
  Tensor x = empty_strided(sizes, strides, dtype, layout, device, pin);
  return C10_UNLIKELY(fills_new_memory()) ? fill_new(std::move(x)) : x;
}

// What forward-mode AD uses for "no tangent": no memory at all.
Tensor efficient_zero(IntArrayRef sizes, std::optional<ScalarType> dtype, std::optional<c10::Layout>,
                      std::optional<Device> device, std::optional<bool>) {
  const Device d = checked(device.value_or(Device(kTpu)));
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, d), nullptr, false);
  auto t = c10::make_intrusive<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet({c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor}),
      c10::scalarTypeToTypeMeta(dtype.value_or(c10::get_default_dtype_as_scalartype())));
  t->set_sizes_contiguous(sizes);
  return Tensor(std::move(t));
}

// --- storages ---

// Room for this geometry in x's storage; new bytes are undefined.
void ensure_storage(c10::TensorImpl *x) {
  if (x->numel() == 0) return;
  const size_t need =
      at::detail::computeStorageNbytes(x->sizes(), x->strides(), x->itemsize(), size_t(x->storage_offset()));
  c10::StorageImpl *s = x->unsafe_storage().unsafeGetStorageImpl();
  if (s->nbytes() < need) {
    TORCH_CHECK(s->resizable(), "Trying to resize storage that is not resizable");
    resize_storage(s, need);
  }
}

const Tensor &resize_(const Tensor &self, IntArrayRef sizes, std::optional<MemoryFormat> format) {
  c10::TensorImpl *x = self.unsafeGetTensorImpl();
  at::detail::check_size_nonnegative(sizes);
  if (x->sizes() != sizes) {
    const int64_t old = int64_t(x->unsafe_storage().nbytes() / x->itemsize());
    x->set_sizes_contiguous(sizes);
    ensure_storage(x);
    const int64_t now = int64_t(x->unsafe_storage().nbytes() / x->itemsize());
    if (C10_UNLIKELY(now > old && fills_new_memory()))
      fill_new(empty({0}, self.scalar_type(), {}, self.device(), {}, {})
                   .set_(self.storage(), old, {now - old}, {1}));
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != MemoryFormat::Preserve, "Unsupported memory format", *format);
    x->empty_tensor_restride(*format);
  }
  return self;
}

Tensor &set_geometry(Tensor &self, c10::Storage source, int64_t offset, IntArrayRef sizes,
                     IntArrayRef strides) {
  c10::TensorImpl *x = self.unsafeGetTensorImpl();
  TORCH_CHECK(source.device().type() == kTpu, "Attempted to set the storage of a tensor on device \"",
              self.device(), "\" to a storage on different device \"", source.device(), "\".");
  TORCH_CHECK(offset >= 0, "Tensor: invalid storage offset ", offset);
  at::detail::check_size_nonnegative(sizes);
  x->set_storage_keep_dtype(std::move(source));
  x->set_storage_offset(offset);
  if (strides.size() == sizes.size() && !sizes.empty())
    x->set_sizes_and_strides(sizes, strides);
  else
    x->set_sizes_contiguous(sizes);
  ensure_storage(x);
  return self;
}

Tensor &set_source_storage(Tensor &self, c10::Storage source) {
  const int64_t n = int64_t(source.nbytes() / self.unsafeGetTensorImpl()->itemsize());
  return set_geometry(self, std::move(source), 0, n, {});
}

Tensor &set_source_tensor(Tensor &self, const Tensor &source) {
  if (self.is_same(source)) return self;
  TORCH_CHECK(self.scalar_type() == source.scalar_type(), "Could not set tensor of type ",
              source.scalar_type(), " to a tensor of type ", self.scalar_type());
  return set_geometry(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

Tensor &set_nothing(Tensor &self) {
  auto s = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                 Allocator::allocate_on(self.device().index(), 0),
                                                 allocator(), true);
  return set_geometry(self, c10::Storage(std::move(s)), 0, {0}, {});
}

// The core's call-back: an out= tensor of the wrong size. Never throws.
tpu_error *resize_out(tpu_tensor *t, int rank, const int64_t *sizes) {
  try {
    const Tensor x = tensor_of(t->handle);
    at::native::resize_output(x, {sizes, size_t(rank)});
    to_c(*t, x);
    return nullptr;
  } catch (const c10::Error &e) {
    return tpu_err(TPU_RUNTIME, "%s", e.what_without_backtrace());
  } catch (const std::exception &e) {
    return tpu_err(TPU_RUNTIME, "%s", e.what());
  }
}

// The core's question about a tensor that it is to give padding. Runs no Python.
bool is_parameter(const void *handle) {
  auto *impl = static_cast<c10::TensorImpl *>(const_cast<void *>(handle));
  if (!impl->requires_grad()) return false;
  return Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(impl)).is_leaf();
}

// --- copies ---

void upload(const Tensor &from, const Tensor &to) {
  Tensor src = from.resolve_conj().resolve_neg();
  if (src.sizes() != to.sizes()) src = src.expand(to.sizes());
  TORCH_CHECK(src.layout() == c10::Layout::Strided, "tpu: cannot copy from a ", src.layout(), " tensor");
  tpu_tensor dst;
  to_c(dst, to);
  if (!(dst.flags & (TPU_T_CONJ | TPU_T_NEG)))
    return check(tpu_upload(src.const_data_ptr(), int(src.scalar_type()), src.strides().data(), &dst));
  const Tensor plain = empty(to.sizes(), src.scalar_type(), {}, to.device(), {}, {});
  upload(src, plain);
  tpu_tensor mid;
  to_c(mid, plain);
  check(tpu_copy(&mid, &dst));
}

void download(const Tensor &from, const Tensor &to) {
  tpu_tensor src;
  to_c(src, from);
  if (from.scalar_type() == to.scalar_type() && from.sizes() == to.sizes() && to.is_contiguous() &&
      !to.is_conj() && !to.is_neg())
    return check(tpu_download(&src, to.mutable_data_ptr()));
  const Tensor plain(at::detail::empty_cpu(from.sizes(), from.scalar_type()));
  check(tpu_download(&src, plain.mutable_data_ptr()));
  to.copy_(plain);
}

// What copy_ ends in when one side is ours. The source may change right after, so non_blocking needs nothing.
Tensor copy_from(const Tensor &src, const Tensor &dst, bool) {
  if (dst.numel() == 0 || src.is_same(dst)) return dst;
  const bool from_us = src.device().type() == kTpu, to_us = dst.device().type() == kTpu;
  if (from_us && to_us) {
    tpu_tensor s, d;
    to_c(s, src), to_c(d, dst);
    check(tpu_copy(&s, &d));
  } else if (from_us && dst.is_cpu()) {
    download(src, dst);
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(to_us && src.is_cpu(), "copying from ", src.device(), " to ", dst.device(),
                                " has no direct road: go through the CPU");
    upload(src, dst);
  }
  return dst;
}

Tensor &copy_(Tensor &dst, const Tensor &src, bool non_blocking) {
  if (dst.is_same(src)) return dst;
  if (dst.device().type() == kTpu) {
    at::assert_no_internal_overlap(dst);
    at::assert_no_partial_overlap(dst, src);
  }
  if (src.sizes() == dst.sizes() || (dst.device().type() == kTpu && dst.numel()))
    copy_from(src, dst, non_blocking);
  else
    copy_from(src.expand(dst.sizes()), dst, non_blocking);
  return dst;
}

Tensor clone(const Tensor &self, std::optional<MemoryFormat> format) {
  const MemoryFormat f = format.value_or(MemoryFormat::Preserve);
  const ScalarType dtype = self.scalar_type();
  Tensor x;
  if (f != MemoryFormat::Preserve)
    x = empty(self.sizes(), dtype, {}, self.device(), {}, f);
  else if (self.is_non_overlapping_and_dense())
    x = blank(self.device().index(), size_t(self.numel()) * self.itemsize(), self.sizes(), self.strides(),
              dtype);
  else
    x = empty_strided(self.sizes(), at::infer_dense_strides(self.sizes(), self.strides()), dtype, {},
                      self.device(), {});
  return copy_from(self, x, false);
}

Tensor copy_from_and_resize(const Tensor &src, const Tensor &dst) {
  if (src.sizes() != dst.sizes()) dst.resize_(src.sizes());
  return copy_from(src, dst, false);
}

c10::Scalar local_scalar(const Tensor &self) {
  alignas(16) char buf[16] = {};
  tpu_tensor t;
  to_c(t, self);
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
  check(tpu_download(&t, buf));
  switch (self.scalar_type()) {
#define CASE(type, name) \
  case ScalarType::name: return c10::Scalar(*reinterpret_cast<const type *>(buf));
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(CASE)
    CASE(uint16_t, UInt16)
    CASE(uint32_t, UInt32)
    CASE(uint64_t, UInt64)
#undef CASE
  default: TORCH_CHECK_NOT_IMPLEMENTED(false, "item() of a tpu tensor of dtype ", self.scalar_type());
  }
}

bool equal(const Tensor &a, const Tensor &b) {
  TORCH_CHECK(a.device() == b.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", a.device(),
              " and ", b.device(), "!");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "Expected object of data type ", a.scalar_type(),
              " but got data type ", b.scalar_type(), " for argument 'other' in call to equal");
  return a.sizes() == b.sizes() && (a.numel() == 0 || a.eq(b).all().item().toBool());
}

// For tests of the size-generic programs: torch.ops.tpu._mark_generic(x, dim, rung, fill).
void mark_generic(const Tensor &x, int64_t dim, int64_t rung, double fill) {
  tpu_tensor t;
  to_c(t, x);
  check(tpu_debug_mark_generic(&t, int(dim), rung, fill));
}

// Whether `x.data = from` keeps the tensor and takes the other's insides: so module.to("tpu") keeps
// parameters (and what ties them together) instead of making new ones.
bool shallow_copy_fits(const Tensor &x, const Tensor &from) {
  auto plain = [](const Tensor &t) {
    return (t.device().type() == kTpu || t.device().is_cpu()) && t.layout() == c10::kStrided;
  };
  return plain(x) && plain(from);
}

// torch's compositions, whose own check of q is for CPU tensors: without it the error is one of gather.
using Quantile = Tensor(const Tensor &, const Tensor &, std::optional<int64_t>, bool, std::string_view);
template <Quantile *compose>
Tensor quantile(const Tensor &x, const Tensor &q, std::optional<int64_t> dim, bool keepdim,
                std::string_view interpolation) {
  const Tensor inside = q.detach().ge(0).logical_and_(q.detach().le(1)).all();
  at::_assert_async(inside, "quantile() q values must be in the range [0, 1]");
  return compose(x, q, dim, keepdim, interpolation);
}

// torch's writes into parts of a fresh tensor, a program for every size; this is one index a dim. What is cut
// off besides, or wrong, is torch's.
Tensor pad_circular(const Tensor &x, c10::SymIntArrayRef pads) {
  const auto pad = C10_AS_INTARRAYREF_SLOW(pads);
  const auto dims = int64_t(pad.size()) / 2;
  bool plain = pad.size() % 2 == 0 && dims > 0 && (x.dim() == dims + 1 || x.dim() == dims + 2);
  for (const auto k : c10::irange(plain ? 2 * dims : 0))
    plain = plain && pad[k] >= 0 && pad[k] <= x.size(x.dim() - 1 - k / 2) && x.size(x.dim() - 1 - k / 2);
  if (!plain) return at::native::_pad_circular_symint(x, pads);
  Tensor y = x;
  for (const auto k : c10::irange(dims)) {
    const int64_t axis = x.dim() - 1 - k, n = x.size(axis), lo = pad[2 * k], hi = pad[2 * k + 1];
    if (!lo && !hi) continue;
    y = y.index_select(axis, at::arange(-lo, n + hi, x.options().dtype(at::kLong)).remainder(n));
  }
  return y.is_same(x) ? x.clone(at::MemoryFormat::Contiguous) : y;
}

void register_structural(torch::Library *m, std::set<std::string> &done) {
  auto add = [&](const char *name, auto *f) { done.insert(name), m->impl(name, f); };
  add("empty.memory_format", &new_empty);
  add("empty_strided", &new_empty_strided);
  add("_efficientzerotensor", &efficient_zero);
  add("view", &at::native::view);
  add("as_strided", &at::native::as_strided_tensorimpl);
  add("_reshape_alias", &at::native::_reshape_alias);
  add("view_as_real", &at::native::view_as_real);
  add("view_as_complex", &at::native::view_as_complex);
  add("unfold", &at::native::unfold);
  add("is_set_to", &at::native::is_set_to);
  add("_has_compatible_shallow_copy_type", &shallow_copy_fits);
  add("resize_", &resize_);
  add("set_", &set_nothing);
  add("set_.source_Tensor", &set_source_tensor);
  add("set_.source_Storage", &set_source_storage);
  add("set_.source_Storage_storage_offset", &set_geometry);
  add("copy_", &copy_);
  add("clone", &clone);
  add("_copy_from", &copy_from);
  add("_copy_from_and_resize", &copy_from_and_resize);
  add("_local_scalar_dense", &local_scalar);
  add("equal", &equal);
  auto *grad = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1,
                                  __FILE__, __LINE__);
  auto composed = [&](const char *name, auto *f) { add(name, f), grad->impl(name, f); };
  composed("quantile", &quantile<&at::native::quantile>);
  composed("_pad_circular", &pad_circular);
  composed("nanquantile", &quantile<&at::native::nanquantile>);
  add("record_stream", +[](Tensor &, Stream) {});
  auto *own = new torch::Library(torch::Library::FRAGMENT, "tpu", {}, __FILE__, __LINE__);
  own->def("_mark_generic(Tensor(a!) x, int dim, int rung, float fill) -> ()",
           torch::CppFunction(&mark_generic));
  // How Python gets at the generators that ops draw from by default (torch.tpu.default_generators).
  own->def("default_generator(int device) -> Generator?",
           torch::CppFunction([](int64_t i) { return default_generator(DeviceIndex(i)); }));
}

} // namespace tpu
