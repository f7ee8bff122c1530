// The device as PyTorch sees it without ops: errors, allocators, guard, streams, events, generator, hooks.
// Included by glue.cpp alone. Nothing here starts the runtime except tpu_open in Hooks::init.
#pragma once

namespace torch {

// As torch/csrc/Exceptions.h has it (which needs Python.h): PyTorch knows it by this name and raises the type
// that it gives.
struct PyTorchError : std::exception {
  explicit PyTorchError(std::string text) : msg(std::move(text)) {}
  virtual void *python_type() = 0;
  const char *what() const noexcept override { return msg.c_str(); }
  std::string msg;
};

} // namespace torch

namespace tpu {

constexpr auto kTpu = c10::DeviceType::PrivateUse1;
using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

void *interrupt_type = nullptr; // KeyboardInterrupt

struct Interrupted final : torch::PyTorchError {
  using PyTorchError::PyTorchError;
  void *python_type() override { return interrupt_type; }
};

// The one place where an error of the core becomes a C++ exception (and so a Python one).
[[noreturn]] void raise(tpu_error *e) {
  const std::string text = tpu_error_message(e);
  const tpu_code code = tpu_error_code(e);
  tpu_error_free(e);
  const c10::SourceLocation here{__func__, __FILE__, uint32_t(__LINE__)};
  switch (code) {
  case TPU_VALUE: throw c10::ValueError(here, text);
  case TPU_TYPE: throw c10::TypeError(here, text);
  case TPU_INDEX: throw c10::IndexError(here, text);
  case TPU_NOT_IMPLEMENTED: throw c10::NotImplementedError(here, text);
  case TPU_OUT_OF_MEMORY: throw c10::OutOfMemoryError(here, text);
  case TPU_LINALG: throw c10::LinAlgError(here, text);
  case TPU_INTERRUPTED:
    if (interrupt_type) throw Interrupted(text);
    [[fallthrough]];
  default: throw c10::Error(here, text);
  }
}

inline void check(tpu_error *e) {
  if (C10_UNLIKELY(e != nullptr)) raise(e);
}

// --- current device and stream ---

thread_local DeviceIndex current = 0;
thread_local std::array<c10::StreamId, 128> streams{}; // work is in order per device: a stream is only its id

inline DeviceIndex device_or_current(DeviceIndex i) { return i < 0 ? current : i; }

inline Device checked(Device d) {
  TORCH_CHECK(d.type() == kTpu, "expected a tpu device, got ", d);
  const DeviceIndex i = device_or_current(d.index());
  if (i != 0)
    check(tpu_device_check(i)); // 0 is looked at when the runtime starts, which says what is missing
  return Device(kTpu, i);
}

DeviceIndex exchange_device(DeviceIndex i) {
  const DeviceIndex old = current;
  if (i >= 0 && i != old) {
    check(tpu_device_check(i));
    current = i;
  }
  return old;
}

// --- device memory ---

void storage_deleter(void *ctx) { tpu_storage_free(static_cast<tpu_storage *>(ctx)); }

inline c10::DataPtr data_ptr(tpu_storage *s, DeviceIndex device) {
  return {tpu_storage_address(s), s, &storage_deleter, Device(kTpu, device)};
}

// A pointer that came back without its DataPtr (from_blob on our address) is found by its range.
inline tpu_storage *storage_of(const c10::DataPtr &p) {
  return p.get_deleter() == &storage_deleter ? static_cast<tpu_storage *>(p.get_context())
                                             : tpu_storage_find(p.get());
}

struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t n) override { return allocate_on(current, n); }
  static c10::DataPtr allocate_on(DeviceIndex device, size_t n) {
    tpu_storage *s = nullptr;
    check(tpu_storage_new(device, n, &s));
    return data_ptr(s, device);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; } // the context is not the address
  void copy_data(void *, const void *, size_t) const override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "a tpu storage is copied through its tensor");
  }

  bool initialized() override { return tpu_is_open(); }
  void emptyCache(c10::MempoolId_t) override {} // buffers go back to the plugin as soon as nothing holds them
  void recordStream(const c10::DataPtr &, Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    tpu_memory m;
    tpu_memory_stats(device_or_current(device), &m);
    c10::CachingDeviceAllocator::DeviceStats d;
    for (auto *s : {&d.allocated_bytes, &d.reserved_bytes, &d.active_bytes, &d.requested_bytes})
      (*s)[0] = {m.allocated, m.allocated_peak, m.allocated_total, m.freed_total};
    for (auto *s : {&d.allocation, &d.active, &d.segment})
      (*s)[0] = {m.buffers, m.buffers_peak, m.buffers_total, m.buffers_freed_total};
    d.num_alloc_retries = m.retries, d.num_ooms = m.ooms;
    d.num_device_alloc = m.buffers_total, d.num_device_free = m.buffers_freed_total;
    return d;
  }
  void resetAccumulatedStats(DeviceIndex d) override { tpu_memory_reset_accumulated(device_or_current(d)); }
  void resetPeakStats(DeviceIndex d) override { tpu_memory_reset_peak(device_or_current(d)); }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex d) override {
    tpu_memory m;
    tpu_memory_stats(device_or_current(d), &m);
    return {size_t(std::max<int64_t>(0, m.limit - m.allocated)), size_t(m.limit)};
  }
};

Allocator *allocator() // never destroyed: storages outlive the interpreter
{
  static auto *a = new Allocator;
  return a;
}

void resize_storage(c10::StorageImpl *impl, size_t nbytes) {
  tpu_storage *s = storage_of(impl->data_ptr());
  if (!s) {
    TORCH_CHECK(!impl->data_ptr(), "this storage's memory is not ours to resize");
    impl->set_data_ptr_noswap(Allocator::allocate_on(device_or_current(impl->device().index()), nbytes));
  } else {
    TORCH_CHECK(impl->data_ptr().get_deleter() == &storage_deleter,
                "a borrowed tpu storage cannot be resized");
    check(tpu_storage_resize(s, nbytes));
    const DeviceIndex device = impl->device().index();
    impl->mutable_data_ptr().release_context();
    impl->set_data_ptr_noswap(data_ptr(s, device)); // growing moved the address
  }
  impl->set_nbytes(nbytes);
}

// --- pinned host memory: nothing to pin, but aligned, and known by address ---

struct PinnedAllocator final : at::HostAllocator {
  struct Book {
    std::mutex lock;
    std::map<const char *, size_t> live;
  };
  static Book &book() {
    static auto *b = new Book;
    return *b;
  }
  static void free_block(void *p) {
    {
      std::lock_guard<std::mutex> hold(book().lock);
      const auto it = book().live.find(static_cast<char *>(p));
      if (it != book().live.end()) tpu_pinned_count(-int64_t(it->second)), book().live.erase(it);
    }
    std::free(p);
  }
  static bool holds(const void *p) {
    std::lock_guard<std::mutex> hold(book().lock);
    const char *c = static_cast<const char *>(p);
    auto it = book().live.upper_bound(c);
    return it != book().live.begin() && (--it, c < it->first + it->second);
  }
  c10::DataPtr allocate(size_t n) override {
    void *p = nullptr;
    if (n) {
      if (posix_memalign(&p, 64, n)) p = nullptr;
      TORCH_CHECK_WITH(OutOfMemoryError, p, "pinned memory: out of memory allocating ", n, " bytes");
      std::lock_guard<std::mutex> hold(book().lock);
      book().live[static_cast<char *>(p)] = n;
      tpu_pinned_count(int64_t(n));
    }
    return {p, p, &free_block, Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void *to, const void *from, size_t n) const override { default_copy_data(to, from, n); }
  bool record_event(void *, void *, Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; } // torch.tpu.host_memory_stats asks the core
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

PinnedAllocator *pinned_allocator() {
  static auto *a = new PinnedAllocator;
  return a;
}

// --- guard: devices, streams, events ---

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kTpu; }
  Device exchangeDevice(Device d) const override { return Device(kTpu, exchange_device(d.index())); }
  Device getDevice() const override { return Device(kTpu, current); }
  void setDevice(Device d) const override { exchange_device(d.index()); }
  void uncheckedSetDevice(Device d) const noexcept override {
    if (d.index() >= 0) current = d.index();
  }
  DeviceIndex deviceCount() const noexcept override { return DeviceIndex(std::min(tpu_device_count(), 127)); }
  c10::DeviceCapability getDeviceCapability(Device) const override { return {}; }

  static Stream stream(Device d, c10::StreamId id) {
    return Stream(Stream::UNSAFE, Device(kTpu, device_or_current(d.index())), id);
  }
  Stream getStream(Device d) const override {
    return stream(d, streams[size_t(device_or_current(d.index()))]);
  }
  Stream getDefaultStream(Device d) const override { return stream(d, 0); }
  Stream getStreamFromGlobalPool(Device d, bool) const override {
    static std::atomic<unsigned> next{0};
    return stream(d, 1 + next++ % 32);
  }
  Stream getNewStream(Device d, int) const override { return getStreamFromGlobalPool(d, false); }
  Stream exchangeStream(Stream s) const override {
    auto &slot = streams[size_t(device_or_current(s.device().index()))];
    return stream(s.device(), std::exchange(slot, s.id()));
  }
  void *getStreamNativeHandle(const Stream s) const override { return reinterpret_cast<void *>(s.id()); }
  bool queryStream(const Stream &s) const override {
    tpu_event *e = nullptr;
    check(tpu_event_record(s.device_index(), &e));
    const bool done = tpu_event_query(e);
    tpu_event_free(e);
    return done;
  }
  void synchronizeStream(const Stream &s) const override { check(tpu_synchronize(s.device_index())); }
  void synchronizeDevice(const DeviceIndex i) const override { check(tpu_synchronize(device_or_current(i))); }

  void record(void **event, const Stream &s, const DeviceIndex i, const c10::EventFlag) const override {
    TORCH_CHECK(i < 0 || i == s.device_index(), "Event device index ", int(i),
                " does not match recording stream's device index ", int(s.device_index()), ".");
    tpu_event *e = nullptr;
    check(tpu_event_record(s.device_index(), &e));
    tpu_event_free(static_cast<tpu_event *>(std::exchange(*event, e)));
  }
  void block(void *, const Stream &) const override {} // in order already
  bool queryEvent(void *e) const override { return !e || tpu_event_query(static_cast<tpu_event *>(e)); }
  void synchronizeEvent(void *e) const override {
    if (e) check(tpu_event_wait(static_cast<tpu_event *>(e)));
  }
  void destroyEvent(void *e, const DeviceIndex) const noexcept override {
    tpu_event_free(static_cast<tpu_event *>(e));
  }
  double elapsedTime(void *a, void *b, const DeviceIndex) const override {
    TORCH_CHECK(a && b, "Both events must be recorded before calculating elapsed time.");
    return tpu_event_elapsed_ms(static_cast<tpu_event *>(a), static_cast<tpu_event *>(b));
  }
};

// --- random numbers ---

// Two locks: `draw` is held while an op is dispatched (it may compile), `short_` only for moments, because
// Python takes it with the GIL held and a compile polls for Ctrl-C under the GIL.
struct PhiloxState {
  std::mutex draw, short_;
  tpu_philox v{c10::default_rng_seed_val, 0};
};

// While a thread compiles ahead it draws from here, whatever generator it names: nobody's state moves.
inline thread_local std::shared_ptr<PhiloxState> scratch_draws;

struct Generator final : c10::GeneratorImpl {
  std::shared_ptr<PhiloxState> state;

  explicit Generator(DeviceIndex i, std::shared_ptr<PhiloxState> s = std::make_shared<PhiloxState>())
      : GeneratorImpl(Device(kTpu, i), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        state(std::move(s)) {}
  std::shared_ptr<PhiloxState> source() const { return scratch_draws ? scratch_draws : state; }
  tpu_philox get() const {
    const auto from = source();
    std::lock_guard<std::mutex> hold(from->short_);
    return from->v;
  }
  void set(tpu_philox v) {
    const auto to = source();
    std::lock_guard<std::mutex> hold(to->short_);
    to->v = v;
  }
  void set_current_seed(uint64_t seed) override { set({seed, 0}); }
  void set_offset(uint64_t offset) override { set({get().seed, offset}); }
  uint64_t get_offset() const override { return get().offset; }
  uint64_t current_seed() const override { return get().seed; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return current_seed();
  }
  void set_state(const c10::TensorImpl &t) override {
    TORCH_CHECK(t.device().is_cpu() && t.dtype() == caffe2::TypeMeta::Make<uint8_t>() && t.is_contiguous(),
                "RNG state must be a torch.ByteTensor on the CPU");
    TORCH_CHECK(t.numel() == sizeof(tpu_philox), "RNG state is wrong size");
    tpu_philox v;
    std::memcpy(&v, t.data(), sizeof v);
    set(v);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::TensorBase t = at::detail::empty_cpu({int64_t(sizeof(tpu_philox))}, c10::ScalarType::Byte);
    const tpu_philox v = get();
    std::memcpy(t.mutable_data_ptr(), &v, sizeof v);
    return t.getIntrusivePtr();
  }
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl> &g) override {
    auto *other = dynamic_cast<Generator *>(g.get());
    TORCH_CHECK_TYPE(other, "graphsafe_set_state: not a tpu generator");
    state = other->state;
  }
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<Generator>(device_.index(), state);
  }
  Generator *clone_impl() const override {
    auto *g = new Generator(device_.index());
    g->set(get());
    return g;
  }
};

const at::Generator &default_generator(DeviceIndex i) {
  static auto *all = new std::array<at::Generator, 128>;
  static std::mutex lock;
  i = device_or_current(i);
  std::lock_guard<std::mutex> hold(lock);
  at::Generator &g = (*all)[size_t(i)];
  if (!g.defined()) {
    if (i != 0) check(tpu_device_check(i));
    g = at::make_generator<Generator>(i);
  }
  return g;
}

// --- hooks ---

struct Hooks final : at::PrivateUse1HooksInterface {
  void init() const override { check(tpu_open()); }
  bool hasPrimaryContext(DeviceIndex) const override { return tpu_is_open(); }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return tpu_device_count() > 0; }
  DeviceIndex deviceCount() const override { return DeviceIndex(std::min(tpu_device_count(), 127)); }
  void setCurrentDevice(DeviceIndex i) const override { exchange_device(i); }
  DeviceIndex getCurrentDevice() const override { return current; }
  DeviceIndex exchangeDevice(DeviceIndex i) const override { return exchange_device(i); }
  DeviceIndex maybeExchangeDevice(DeviceIndex i) const override { return exchange_device(i); }
  const at::Generator &getDefaultGenerator(DeviceIndex i) const override { return default_generator(i); }
  at::Generator getNewGenerator(DeviceIndex i) const override {
    return at::make_generator<Generator>(checked(Device(kTpu, i)).index());
  }
  Device getDeviceFromPtr(void *p) const override {
    tpu_storage *s = tpu_storage_find(p);
    TORCH_CHECK(s, "the address belongs to no tpu storage");
    return Device(kTpu, DeviceIndex(tpu_storage_device(s)));
  }
  bool isPinnedPtr(const void *p) const override { return PinnedAllocator::holds(p); }
  c10::Allocator *getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage &s, size_t n) const override {
    resize_storage(s.unsafeGetStorageImpl(), n);
  }
};

} // namespace tpu
