// torch_tpu glue: all that PyTorch's C++ extension points need, and nothing that C can do.
//
// runtime.h  the device without ops: errors, allocators, guard, streams, events, generator, hooks
// call.h     arguments to plain C values and back: the boxed kernel and the typed ones
// ops.h      structural ops typed by hand: empty, views, copies, resize, set
// autocast.h the autocast policies
// graph.h    compiled graphs
// here       the CPU fallback and tpu_glue_init, which registers everything explicitly (no static
// registration)
#include <ATen/native/CPUFallback.h>

#include <ATen/EmptyTensor.h>
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/_pad_circular_native.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/nanquantile_native.h>
#include <ATen/ops/quantile_native.h>
#include <ATen/native/DispatchStub.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "glue.h"
#include "tpu.h"

#include "runtime.h"
#include "call.h"
#include "ops.h"
#include "autocast.h"
#include "graph.h"

namespace tpu {

// --- CPU fallback ---

std::atomic<int> policy{TPU_FALLBACK_WARN};

std::string dtypes_of(const Stack &stack, size_t nargs) {
  std::string text;
  auto add = [&](const Tensor &t) {
    if (t.defined()) text += (text.empty() ? "" : ", ") + std::string(c10::toString(t.scalar_type()));
  };
  for (size_t i = stack.size() - nargs; i < stack.size(); i++) {
    if (stack[i].isTensor())
      add(stack[i].toTensor());
    else if (stack[i].isTensorList())
      for (const IValue &x : stack[i].toListRef()) add(x.toTensor());
  }
  return text;
}

// Runs one op on the CPU: counted, warned about once per op, an error where the policy or the op says so.
void fallback(const OperatorHandle &op, Stack *stack, const char *why) {
  const std::string name = c10::toString(op.operator_name());
  const size_t nargs = op.schema().arguments().size();
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU))
    TORCH_CHECK_NOT_IMPLEMENTED(false, "The operator '", name, "' is not implemented for TPU",
                                why ? std::string(": ") + why : "", ". (dtypes: ", dtypes_of(*stack, nargs),
                                "; the CPU has no kernel for it either)");
  if (policy == TPU_FALLBACK_ERROR)
    TORCH_CHECK_NOT_IMPLEMENTED(false, "The operator '", name, "' is not implemented for TPU",
                                why ? std::string(": ") + why : "", ". (dtypes: ", dtypes_of(*stack, nargs),
                                "; TORCH_TPU_FALLBACK=error is set: warn or silent runs it on "
                                "the CPU)");
  for (size_t i = stack->size() - nargs; i < stack->size(); i++)
    TORCH_CHECK_NOT_IMPLEMENTED(
        !(*stack)[i].isGenerator() || (*stack)[i].toGenerator().device().is_cpu(), "The operator '", name,
        "' is not implemented for TPU, and a tpu generator cannot draw on the CPU. (dtypes: ",
        dtypes_of(*stack, nargs), ") Draw with a CPU generator and move the result.");
  tpu_fallback_count(name.c_str(), why ? why : "no kernel");
  if (policy == TPU_FALLBACK_WARN) {
    static auto *seen = new std::set<std::string>;
    static std::mutex lock;
    bool first;
    {
      std::lock_guard<std::mutex> hold(lock);
      first = seen->insert(name).second;
    }
    if (first)
      TORCH_WARN("The operator '", name, "' runs on the CPU (", why ? why : "it has no tpu kernel",
                 "), which copies its tensors both ways. torch.tpu.fallback_report() counts such calls; "
                 "TORCH_TPU_FALLBACK="
                 "error|silent changes what happens. This is said once per operator.");
  }
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

void fallback_boxed(const OperatorHandle &op, Stack *stack) { fallback(op, stack, nullptr); }

// Ops on tensors of ours with another layout, where PyTorch itself has no kernel for them either.
template <const char *const &what> void no_layout(const OperatorHandle &op, Stack *) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "The operator '", c10::toString(op.operator_name()),
                              "' is not implemented for ", what);
}
const char *const sparse = "sparse tensors on TPU. Keep them on the CPU, or call to_dense() first.";
const char *const quantized = "quantized tensors on TPU. Keep them on the CPU, or call dequantize() first.";
const char *const nested =
    "nested tensors of strided layout on TPU. Use torch.nested.nested_tensor(..., layout=torch.jagged).";

// --- kinds of arguments, read off a schema ---

char kind_of(const c10::Argument &arg) {
  using K = c10::TypeKind;
  c10::TypePtr t = arg.real_type();
  bool optional = false;
  if (t->kind() == K::OptionalType) {
    optional = true;
    t = t->castRaw<c10::OptionalType>()->getElementType();
  }
  auto pick = [&](char plain, char maybe) { return optional ? maybe : plain; };
  switch (t->kind()) {
  case K::TensorType: return optional ? 't' : arg.alias_info() && arg.alias_info()->isWrite() ? 'W' : 'T';
  case K::NumberType: return pick('S', 's');
  case K::IntType:
  case K::SymIntType: return pick('i', 'j');
  case K::BoolType: return pick('b', 'B');
  case K::FloatType: return pick('d', 'e');
  case K::StringType: return pick('c', 'C');
  case K::ScalarTypeType: return pick('Y', 'y');
  case K::LayoutType: return 'l';
  case K::MemoryFormatType: return 'm';
  case K::DeviceObjType: return 'v';
  case K::GeneratorType: return 'g';
  case K::ListType: break;
  default: return '?';
  }
  const c10::TypePtr item = t->castRaw<c10::ListType>()->getElementType();
  switch (item->kind()) {
  case K::TensorType: return 'L';
  case K::OptionalType: return 'O';
  case K::NumberType: return 'P';
  case K::IntType:
  case K::SymIntType: return pick('I', 'J');
  case K::FloatType: return 'D';
  case K::BoolType: return 'A';
  default: return '?';
  }
}

std::string kinds_of(const std::vector<c10::Argument> &args) {
  std::string s;
  for (const auto &a : args) s += kind_of(a);
  return s;
}

bool is_written(const c10::Argument &a) { return a.alias_info() && a.alias_info()->isWrite(); }

std::string plain(std::string kinds) // as if nothing were written
{
  std::replace(kinds.begin(), kinds.end(), 'W', 'T');
  return kinds;
}

// --- registration ---

struct Registry {
  torch::Library *aten = nullptr;
  std::multimap<std::string, c10::OperatorName> overloads; // by base name
  std::set<std::string> done;
  std::vector<std::string> missing;
  std::map<std::string, std::string> refused;
  int registered = 0, typed = 0;
};
Registry reg;

std::string name_of(const c10::OperatorName &n) {
  return n.name.substr(6) + (n.overload_name.empty() ? "" : "." + n.overload_name);
}

Entry *entry_for(const tpu_row *row, const OperatorHandle &op) {
  const auto &schema = op.schema();
  const auto &args = schema.arguments();
  const std::string name = schema.name().substr(6);
  auto named = [&](std::initializer_list<const char *> list) {
    return std::any_of(list.begin(), list.end(), [&](const char *p) { return name.rfind(p, 0) == 0; });
  };
  auto *e = new Entry{.row = row,
                      .variant = TPU_FUNCTIONAL,
                      .op = op,
                      .kinds = kinds_of(args),
                      .returns = "",
                      .nargs = int(args.size()),
                      .random = tpu_row_is_random(row),
                      .floats = named({"zeros", "ones", "eye", "scalar_tensor", "linspace", "logspace"}),
                      .moves_indices = named({"index", "_index", "_unsafe_index"}),
                      .moves_scalars = named({"_foreach_addc"}),
                      .updates = reg.overloads.count(name) && reg.overloads.count(name + "_"),
                      .overlap = op.hasTag(at::Tag::generated) ? TPU_OVERLAP_FREE : tpu_row_overlap(row)};
  const size_t options = e->kinds.find("ylvB");
  if (options != std::string::npos && e->kinds.find_first_of("TtL") == std::string::npos)
    e->dtype_at = int(options);
  for (const auto &a : args)
    if (a.is_out()) e->nargs--, e->variant = op.hasTag(at::Tag::generated) ? TPU_OUT_EXACT : TPU_OUT;
  bool returns_written = false;
  for (const auto &r : schema.returns()) {
    const char k = kind_of(r);
    e->returns += is_written(r) ? 'W' : k == 'W' ? 'T' : k;
    returns_written |= is_written(r);
  }
  const bool writes = std::any_of(args.begin(), args.end(), is_written);
  if (e->variant < TPU_OUT && writes && (returns_written || schema.returns().empty()))
    e->variant = TPU_INPLACE;
  e->shared = e->variant == TPU_INPLACE && tpu_row_is_shared(row);
  e->updates |= e->variant == TPU_INPLACE;
  return e;
}

// Why an op may not have a kernel of ours, or NULL.
const char *refusal(const OperatorHandle &op, const Entry &e) {
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
      !op.hasKernelForDispatchKey(c10::DispatchKey::Autograd) && op.schema().name() != "aten::one_hot")
    return "composite: a kernel would take its autograd away";
  for (const auto &r : op.schema().returns())
    if (r.alias_info() && !r.alias_info()->isWrite()) return "a view";
  if (e.kinds.find('?') != std::string::npos) return "an argument type that calls do not have";
  return nullptr;
}

void register_entry(Entry *e) {
  const std::string name = name_of(e->op.operator_name());
  reg.done.insert(name);
  const auto &map = families();
  const auto it = e->variant >= TPU_OUT ? map.end() : map.find(e->kinds + ">" + e->returns);
  // The one ITensorListRef family is for the structured cat; other lists are TensorLists.
  if (it != map.end() && (e->kinds[0] != 'L' || name == "cat")) {
    try {
      reg.aten->impl(name.c_str(), it->second(e));
      reg.registered++, reg.typed++;
      return;
    } catch (const std::exception &) {
      // C++ types that differ behind equal letters: boxed
    }
  }
  reg.aten->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Boxed>(e)));
  reg.registered++;
}

// The in-place and out= forms of a functional row: same base name, same arguments up to the written ones.
void derive(const Entry &f) {
  const std::string base = f.op.schema().name().substr(6), want = plain(f.kinds);
  const size_t options = want.find("ylvB");
  const std::string without =
      options == std::string::npos ? want : want.substr(0, options) + want.substr(options + 4);
  for (const std::string &b : {base, base + "_"}) {
    const auto range = reg.overloads.equal_range(b);
    for (auto it = range.first; it != range.second; ++it) {
      if (reg.done.count(name_of(it->second))) continue;
      const auto op = c10::Dispatcher::singleton().findSchema(it->second);
      if (!op) continue;
      Entry *e = entry_for(f.row, *op);
      const std::string have = plain(e->kinds.substr(0, size_t(e->nargs)));
      const bool padded = have != want && e->variant >= TPU_OUT && have == without;
      if (e->variant == TPU_FUNCTIONAL || (have != want && !padded) || refusal(*op, *e)) {
        delete e;
        continue;
      }
      if (padded) e->pad = int(options);
      register_entry(e);
    }
  }
}

void register_rows() {
  auto &dispatcher = c10::Dispatcher::singleton();
  for (const auto &n : dispatcher.getAllOpNames())
    if (n.name.compare(0, 6, "aten::") == 0) reg.overloads.emplace(n.name.substr(6), n);
  std::vector<Entry *> functional;
  for (int i = 0; i < tpu_num_rows(); i++) {
    const tpu_row *row = tpu_row_at(i);
    if (tpu_row_is_internal(row)) continue;
    const std::string name = tpu_row_name(row);
    const size_t dot = name.find('.');
    const auto op = dispatcher.findSchema(
        {"aten::" + name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
    if (!op) {
      reg.missing.push_back(name);
      continue;
    }
    Entry *e = entry_for(row, *op);
    const char *why = reg.done.count(name) ? "typed by hand, or listed twice" : refusal(*op, *e);
    if (why)
      reg.refused[name] = why;
    else
      register_entry(e);
    if (e->variant == TPU_FUNCTIONAL) functional.push_back(e);
  }
  for (const Entry *e : functional) derive(*e);
}

// --- attention ---

// The fused row takes whatever has the plain four dims, grouped queries included; the rest is PyTorch's
// mathematical path.
int64_t attention_choice(const Tensor &q, const Tensor &k, const Tensor &v, const std::optional<Tensor> &mask,
                         double, bool causal, std::optional<double>, bool gqa) {
  static const bool have = reg.done.count("_scaled_dot_product_fused_attention_overrideable") != 0;
  auto fits = [&] {
    if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || !at::isFloatingType(q.scalar_type())) return false;
    // torch.compile asks with symbolic sizes
    auto same = [](const Tensor &x, const Tensor &y, int d) {
      return TORCH_GUARD_OR_FALSE(x.sym_size(d).sym_eq(y.sym_size(d)));
    };
    const c10::SymInt heads = q.sym_size(1), kv = k.sym_size(1);
    return q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type() && same(k, v, 1) &&
           (same(q, k, 1) || (gqa && kv > 0 && heads % kv == 0)) && same(q, k, 0) && same(q, v, 0) &&
           same(k, v, 2) && same(q, k, 3) && !(mask && mask->defined() && causal);
  };
  // vmap has no rule for the fused row, but for everything that the mathematical path is made of; a layer of
  // torch.func may stand inside one of vmap.
  auto transformed = [&] {
    using K = c10::DispatchKey;
    return q.key_set().has_any(c10::DispatchKeySet({K::FuncTorchBatched, K::FuncTorchGradWrapper})) ||
           c10::impl::tls_is_dispatch_key_included(K::FuncTorchDynamicLayerFrontMode) ||
           c10::impl::tls_is_dispatch_key_included(K::FuncTorchDynamicLayerBackMode);
  };
  const bool good = have && !transformed() && at::globalContext().userEnabledOverrideableSDP() && fits();
  return int64_t(good ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

// nn.TransformerEncoder makes nested tensors of padded batches where this says yes; we have none.
bool no_nested_tensors(const Tensor &, const Tensor &) { return false; }

void register_attention() {
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&attention_choice);
  reg.aten->impl("_fused_sdp_choice", &attention_choice);
  reg.aten->impl("_nested_tensor_from_mask_left_aligned", &no_nested_tensors);
}

void init() {
  c10::SetAllocator(kTpu, allocator());
  at::setHostAllocator(kTpu, pinned_allocator());
  c10::impl::registerDeviceGuard(kTpu, new Guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  tpu_resize_out = &resize_out;
  tpu_is_parameter = &is_parameter;
  auto library = [](const char *ns, c10::DispatchKey key, const char *file) {
    return new torch::Library(torch::Library::IMPL, ns, key, file, 0);
  };
  reg.aten = library("aten", c10::DispatchKey::PrivateUse1, __FILE__);
  register_structural(reg.aten, reg.done);
  register_rows();
  register_attention();
  auto *all = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, 0);
  all->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback_boxed>());
  auto refuse = [&](c10::DispatchKey key, torch::CppFunction &&f) {
    library("_", key, __FILE__)->fallback(std::move(f));
  };
  using K = c10::DispatchKey;
  refuse(K::SparsePrivateUse1, torch::CppFunction::makeFromBoxedFunction<&no_layout<sparse>>());
  refuse(K::SparseCsrPrivateUse1, torch::CppFunction::makeFromBoxedFunction<&no_layout<sparse>>());
  refuse(K::QuantizedPrivateUse1, torch::CppFunction::makeFromBoxedFunction<&no_layout<quantized>>());
  refuse(K::NestedTensorPrivateUse1, torch::CppFunction::makeFromBoxedFunction<&no_layout<nested>>());
  register_autocast();
  register_graphs();
}

} // namespace tpu

extern "C" const char *tpu_glue_init(void) {
  static std::mutex lock;
  static bool ready = false;
  static auto *failure = new std::string;
  std::lock_guard<std::mutex> hold(lock);
  if (ready || !failure->empty()) return ready ? nullptr : failure->c_str();
  try {
    if (const char *p = std::getenv("TORCH_TPU_FALLBACK")) {
      const std::string_view v = p;
      tpu::policy = v == "error"    ? TPU_FALLBACK_ERROR
                    : v == "silent" ? TPU_FALLBACK_SILENT
                                    : TPU_FALLBACK_WARN;
    }
    tpu::init();
    ready = true;
    return nullptr;
  } catch (const c10::Error &e) {
    *failure = std::string("registration with PyTorch failed: ") + e.what_without_backtrace();
  } catch (const std::exception &e) {
    *failure = std::string("registration with PyTorch failed: ") + e.what();
  }
  return failure->c_str();
}

extern "C" void tpu_glue_set_interrupt_type(void *type) { tpu::interrupt_type = type; }
extern "C" void tpu_glue_set_fallback(int p) { tpu::policy = p; }
extern "C" int tpu_glue_get_fallback(void) { return tpu::policy; }

extern "C" char *tpu_glue_report(void) {
  const auto &r = tpu::reg;
  std::string s = "{\"registered\": " + std::to_string(r.registered) +
                  ", \"typed\": " + std::to_string(r.typed) +
                  ", \"rows\": " + std::to_string(tpu_num_rows()) + ", \"missing\": [";
  const char *sep = "";
  for (const auto &name : r.missing) s += sep + ("\"" + name + "\""), sep = ", ";
  s += "], \"refused\": {", sep = "";
  for (const auto &[name, why] : r.refused) s += sep + ("\"" + name + "\": \"" + why + "\""), sep = ", ";
  return tpu_xstrdup((s + "}}").c_str());
}
