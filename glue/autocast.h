// Autocast policies, as CUDA has them, for the dispatch key of our device: one boxed kernel, four lists.
#pragma once

namespace at::autocast { // exported by libtorch_cpu; the header brings every op
TORCH_API c10::ScalarType get_autocast_dtype(c10::DeviceType);
TORCH_API void set_autocast_dtype(c10::DeviceType, c10::ScalarType);
TORCH_API Tensor cached_cast(c10::ScalarType, const Tensor &, c10::DeviceType);
} // namespace at::autocast

namespace tpu {

enum Policy { LOWER, FP32, FP32_OPT_DTYPE, APPEND_DTYPE, PROMOTE, BANNED };

const struct {
  Policy policy;
  const char *ops;
} cast_lists[] = {
#define POLICY(name, ops) {name, ops},
#include "autocast.def"
#undef POLICY
};

inline bool eligible(const Tensor &t) {
  return t.defined() && t.device().type() == kTpu && t.is_floating_point();
}

// Calls f on every tensor of the arguments that autocast may cast (double stays).
template <class F> void each_castable(Stack &stack, size_t base, F f) {
  auto may = [](const Tensor &t) { return eligible(t) && t.scalar_type() != ScalarType::Double; };
  for (size_t i = base; i < stack.size(); i++) {
    IValue &v = stack[i];
    if (v.isTensor()) {
      if (may(v.toTensor())) f(v.toTensor(), [&](Tensor t) { v = std::move(t); });
    } else if (v.isTensorList()) {
      c10::List<Tensor> list = v.toTensorList().copy();
      for (size_t k = 0; k < list.size(); k++)
        if (const Tensor t = list.get(k); may(t)) f(t, [&](Tensor n) { list.set(k, std::move(n)); });
      v = std::move(list);
    }
  }
}

struct Cast final : c10::OperatorKernel {
  Policy policy;
  std::optional<OperatorHandle> with_dtype; // APPEND_DTYPE
  explicit Cast(Policy p) : policy(p) {}

  void operator()(const OperatorHandle &op, c10::DispatchKeySet, Stack *stack) {
    const size_t base = stack->size() - op.schema().arguments().size();
    const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::AutocastPrivateUse1);
    TORCH_CHECK(policy != BANNED,
                "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\nUse "
                "binary_cross_entropy_with_logits or BCEWithLogitsLoss, or compute it outside of the "
                "autocast region.");
    const bool first = (*stack)[base].isTensor() && eligible((*stack)[base].toTensor());
    if (policy == APPEND_DTYPE) {
      stack->emplace_back(first ? ScalarType::Float : (*stack)[base].toTensor().scalar_type());
      return with_dtype->callBoxed(stack);
    }
    if (policy == FP32_OPT_DTYPE) {
      const auto at = op.schema().argumentIndexWithName("dtype");
      if (first && at && (*stack)[base + size_t(*at)].isNone())
        (*stack)[base + size_t(*at)] = ScalarType::Float;
      return op.callBoxed(stack);
    }
    ScalarType to = policy == FP32 ? ScalarType::Float : at::autocast::get_autocast_dtype(kTpu);
    if (policy == PROMOTE)
      each_castable(*stack, base, [&](const Tensor &t, auto) {
        if (t.scalar_type() == ScalarType::Float) to = ScalarType::Float;
      });
    each_castable(*stack, base,
                  [&](const Tensor &t, auto put) { put(at::autocast::cached_cast(to, t, kTpu)); });
    op.callBoxed(stack);
  }
};

void register_autocast() {
  constexpr auto key = c10::DispatchKey::AutocastPrivateUse1;
  auto *all = new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFallthrough());
  auto *m = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  auto &dispatcher = c10::Dispatcher::singleton();
  for (const auto &[policy, ops] : cast_lists) {
    std::istringstream words(ops);
    for (std::string name; words >> name;) {
      const size_t dot = name.find('.');
      const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
      if (!dispatcher.findSchema({"aten::" + name.substr(0, dot), overload})) continue;
      auto cast = std::make_unique<Cast>(policy);
      if (policy == APPEND_DTYPE)
        cast->with_dtype = dispatcher.findSchema(
            {"aten::norm", overload == "Scalar" ? "ScalarOpt_dtype" : "ScalarOpt_dim_dtype"});
      m->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(cast)));
    }
  }
  at::autocast::set_autocast_dtype(kTpu, ScalarType::BFloat16);
}

} // namespace tpu
