module @program {
  func.func public @main(%arg0: tensor<1x6x6xf32>) -> (tensor<1x3x3xf32>, tensor<1x3x3xf32>) {
    %0 = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [1, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 2, 2>, window_strides = array<i64: 1, 2, 2>}> ({
    ^bb0(%2: tensor<f32>, %3: tensor<f32>):
      %4 = stablehlo.add %2, %3 : tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<1x6x6xf32>, tensor<f32>) -> tensor<1x3x3xf32>
    %5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %6 = "stablehlo.reduce_window"(%arg0, %5) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [1, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 2, 2>, window_strides = array<i64: 1, 2, 2>}> ({
    ^bb0(%7: tensor<f32>, %8: tensor<f32>):
      %9 = stablehlo.maximum %7, %8 : tensor<f32>
      "stablehlo.return"(%9) : (tensor<f32>) -> ()
    }) : (tensor<1x6x6xf32>, tensor<f32>) -> tensor<1x3x3xf32>
    return %1, %6 : tensor<1x3x3xf32>, tensor<1x3x3xf32>
  }
}
