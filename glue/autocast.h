// Autocast policies, as CUDA has them, for the dispatch key of our device: one boxed kernel, four lists.
#pragma once

namespace at::autocast { // exported by libtorch_cpu; the header brings every op
TORCH_API c10::ScalarType get_autocast_dtype(c10::DeviceType);
TORCH_API void set_autocast_dtype(c10::DeviceType, c10::ScalarType);
TORCH_API Tensor cached_cast(c10::ScalarType, const Tensor &, c10::DeviceType);
} // namespace at::autocast

namespace tpu {

enum Policy { LOWER, FP32, FP32_OPT_DTYPE, APPEND_DTYPE, PROMOTE, BANNED };

const struct { Policy policy; const char *ops; } cast_lists[] = {
  {LOWER, "_convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input "
          "conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm "
          "chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell "
          "_scaled_dot_product_flash_attention scaled_dot_product_attention"},
  {FP32, "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar pow.Tensor_Tensor "
         "pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm nuclear_norm.dim "
         "cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss "
         "smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss "
         "multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d "
         "_upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d "
         "upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d "
         "_upsample_bicubic2d_aa"},
  {FP32_OPT_DTYPE, "prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm "
                   "linalg_matrix_norm.str_ord sum sum.dim_IntList"},
  {APPEND_DTYPE, "norm.Scalar norm.ScalarOpt_dim"},
  {PROMOTE, "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"},
  {BANNED, "binary_cross_entropy"},
};

inline bool eligible(const Tensor &t) { return t.defined() && t.device().type() == kTpu && t.is_floating_point(); }

// Calls f on every tensor of the arguments that autocast may cast (double stays).
template <class F> void each_castable(Stack &stack, size_t base, F f)
{
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

  void operator()(const OperatorHandle &op, c10::DispatchKeySet, Stack *stack)
  {
    const size_t base = stack->size() - op.schema().arguments().size();
    const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::AutocastPrivateUse1);
    TORCH_CHECK(policy != BANNED, "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\nUse "
                "binary_cross_entropy_with_logits or BCEWithLogitsLoss, or compute it outside of the autocast region.");
    const bool first = (*stack)[base].isTensor() && eligible((*stack)[base].toTensor());
    if (policy == APPEND_DTYPE) {
      stack->emplace_back(first ? ScalarType::Float : (*stack)[base].toTensor().scalar_type());
      return with_dtype->callBoxed(stack);
    }
    if (policy == FP32_OPT_DTYPE) {
      const auto at = op.schema().argumentIndexWithName("dtype");
      if (first && at && (*stack)[base + size_t(*at)].isNone()) (*stack)[base + size_t(*at)] = ScalarType::Float;
      return op.callBoxed(stack);
    }
    ScalarType to = policy == FP32 ? ScalarType::Float : at::autocast::get_autocast_dtype(kTpu);
    if (policy == PROMOTE)
      each_castable(*stack, base, [&](const Tensor &t, auto) { if (t.scalar_type() == ScalarType::Float) to = ScalarType::Float; });
    each_castable(*stack, base, [&](const Tensor &t, auto put) { put(at::autocast::cached_cast(to, t, kTpu)); });
    op.callBoxed(stack);
  }
};

void register_autocast()
{
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
        cast->with_dtype = dispatcher.findSchema({"aten::norm", overload == "Scalar" ? "ScalarOpt_dtype" : "ScalarOpt_dim_dtype"});
      m->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(cast)));
    }
  }
  at::autocast::set_autocast_dtype(kTpu, ScalarType::BFloat16);
}

} // namespace tpu
