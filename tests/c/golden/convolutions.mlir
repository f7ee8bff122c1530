module @program {
  func.func public @main(%arg0: tensor<6x4x3x3xf32>, %arg1: tensor<2x4x8x8xf32>, %arg2: tensor<4x1x2xf32>, %arg3: tensor<2x4x8xf32>, %arg4: tensor<6x4x3x3xbf16>, %arg5: tensor<2x4x8x8xbf16>) -> (tensor<2x6x4x4xf32>, tensor<2x4x7xf32>, tensor<2x6x4x4xbf16>) {
    %0 = "stablehlo.convolution"(%arg1, %arg0) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, lhs_dilation = array<i64: 1, 1>, padding = dense<[[1, 1], [1, 1]]> : tensor<2x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>], rhs_dilation = array<i64: 1, 1>, window_reversal = array<i1: false, false>, window_strides = array<i64: 2, 2>}> : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x4x4xf32>
    %1 = "stablehlo.slice"(%arg3) <{start_indices = array<i64: 0, 0, 0>, limit_indices = array<i64: 2, 4, 7>, strides = array<i64: 1, 1, 1>}> : (tensor<2x4x8xf32>) -> tensor<2x4x7xf32>
    %2 = "stablehlo.reshape"(%1) : (tensor<2x4x7xf32>) -> tensor<2x4x1x7xf32>
    %3 = "stablehlo.slice"(%arg2) <{start_indices = array<i64: 0, 0, 0>, limit_indices = array<i64: 4, 1, 1>, strides = array<i64: 1, 1, 1>}> : (tensor<4x1x2xf32>) -> tensor<4x1x1xf32>
    %4 = "stablehlo.reshape"(%3) : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x4x1x1xf32>) -> tensor<2x4x1x7xf32>
    %6 = stablehlo.multiply %2, %5 : tensor<2x4x1x7xf32>
    %7 = "stablehlo.slice"(%arg3) <{start_indices = array<i64: 0, 0, 1>, limit_indices = array<i64: 2, 4, 8>, strides = array<i64: 1, 1, 1>}> : (tensor<2x4x8xf32>) -> tensor<2x4x7xf32>
    %8 = "stablehlo.reshape"(%7) : (tensor<2x4x7xf32>) -> tensor<2x4x1x7xf32>
    %9 = "stablehlo.slice"(%arg2) <{start_indices = array<i64: 0, 0, 1>, limit_indices = array<i64: 4, 1, 2>, strides = array<i64: 1, 1, 1>}> : (tensor<4x1x2xf32>) -> tensor<4x1x1xf32>
    %10 = "stablehlo.reshape"(%9) : (tensor<4x1x1xf32>) -> tensor<1x4x1x1xf32>
    %11 = "stablehlo.broadcast_in_dim"(%10) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x4x1x1xf32>) -> tensor<2x4x1x7xf32>
    %12 = stablehlo.multiply %8, %11 : tensor<2x4x1x7xf32>
    %13 = stablehlo.add %6, %12 : tensor<2x4x1x7xf32>
    %14 = "stablehlo.reshape"(%13) : (tensor<2x4x1x7xf32>) -> tensor<2x4x7xf32>
    %15 = "stablehlo.convolution"(%arg5, %arg4) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, lhs_dilation = array<i64: 1, 1>, padding = dense<[[1, 1], [1, 1]]> : tensor<2x2xi64>, rhs_dilation = array<i64: 1, 1>, window_reversal = array<i1: true, true>, window_strides = array<i64: 2, 2>}> : (tensor<2x4x8x8xbf16>, tensor<6x4x3x3xbf16>) -> tensor<2x6x4x4xf32>
    %16 = "stablehlo.convert"(%15) : (tensor<2x6x4x4xf32>) -> tensor<2x6x4x4xbf16>
    return %0, %14, %16 : tensor<2x6x4x4xf32>, tensor<2x4x7xf32>, tensor<2x6x4x4xbf16>
  }
}
