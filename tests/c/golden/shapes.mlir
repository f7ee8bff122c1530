module @program {
  func.func public @main(%arg0: tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>, tensor<6x4xf32>, tensor<2x3x2xf32>, tensor<2x4x4xf32>, tensor<2x6x4xf32>, tensor<2x3x4xf32>, tensor<2x6x4xf32>) {
    %0 = "stablehlo.transpose"(%arg0) <{permutation = array<i64: 2, 0, 1>}> : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
    %1 = "stablehlo.reshape"(%arg0) : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
    %2 = "stablehlo.slice"(%arg0) <{start_indices = array<i64: 0, 0, 1>, limit_indices = array<i64: 2, 3, 4>, strides = array<i64: 1, 1, 2>}> : (tensor<2x3x4xf32>) -> tensor<2x3x2xf32>
    %3 = stablehlo.constant dense<7.0> : tensor<f32>
    %4 = "stablehlo.pad"(%arg0, %3) <{edge_padding_low = array<i64: 0, 2, 0>, edge_padding_high = array<i64: 0, -1, 0>, interior_padding = array<i64: 0, 0, 0>}> : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x4x4xf32>
    %5 = "stablehlo.concatenate"(%arg0, %arg0) <{dimension = 1 : i64}> : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x6x4xf32>
    %6 = "stablehlo.reverse"(%arg0) <{dimensions = array<i64: 0>}> : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
    %7 = "stablehlo.reshape"(%arg0) : (tensor<2x3x4xf32>) -> tensor<2x1x3x4xf32>
    %8 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<2x1x3x4xf32>) -> tensor<2x2x3x4xf32>
    %9 = "stablehlo.reshape"(%8) : (tensor<2x2x3x4xf32>) -> tensor<2x6x4xf32>
    return %0, %1, %2, %4, %5, %6, %9 : tensor<4x2x3xf32>, tensor<6x4xf32>, tensor<2x3x2xf32>, tensor<2x4x4xf32>, tensor<2x6x4xf32>, tensor<2x3x4xf32>, tensor<2x6x4xf32>
  }
}
