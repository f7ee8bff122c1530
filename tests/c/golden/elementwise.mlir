module @program {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3xbf16>, %arg2: tensor<2x1xi64>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xui8>, tensor<2x3xf32>, tensor<2x3x2xf32>) {
    %0 = "stablehlo.convert"(%arg1) : (tensor<3xbf16>) -> tensor<3xf32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<2x3xf32>
    %2 = stablehlo.add %arg0, %1 : tensor<2x3xf32>
    %3 = "stablehlo.convert"(%arg2) : (tensor<2x1xi64>) -> tensor<2x1xf32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> tensor<2x3xf32>
    %5 = stablehlo.multiply %2, %4 : tensor<2x3xf32>
    %6 = "chlo.erf"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %7 = stablehlo.exponential %arg0 : tensor<2x3xf32>
    %8 = stablehlo.constant dense<0.0> : tensor<f32>
    %9 = stablehlo.constant dense<0.0> : tensor<2x3xf32>
    %10 = "stablehlo.compare"(%arg0, %9) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %11 = "stablehlo.select"(%10, %7, %6) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %12 = "stablehlo.convert"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xi32>
    %13 = "stablehlo.convert"(%12) : (tensor<2x3xi32>) -> tensor<2x3xui8>
    %14 = stablehlo.constant dense<3.0> : tensor<f32>
    %15 = stablehlo.constant dense<3.0> : tensor<2x3xf32>
    %16 = stablehlo.remainder %arg0, %15 : tensor<2x3xf32>
    %17 = stablehlo.add %16, %15 : tensor<2x3xf32>
    %18 = "stablehlo.compare"(%14, %8) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %19 = "stablehlo.compare"(%16, %9) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %20 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64>}> : (tensor<i1>) -> tensor<2x3xi1>
    %21 = "stablehlo.compare"(%19, %20) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
    %22 = "stablehlo.compare"(%16, %9) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %23 = stablehlo.and %22, %21 : tensor<2x3xi1>
    %24 = "stablehlo.select"(%23, %17, %16) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %25 = "stablehlo.complex"(%arg0, %arg0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xcomplex<f32>>
    %26 = "stablehlo.real"(%25) : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
    %27 = "stablehlo.reshape"(%26) : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
    %28 = "stablehlo.imag"(%25) : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
    %29 = "stablehlo.reshape"(%28) : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
    %30 = "stablehlo.concatenate"(%27, %29) <{dimension = 2 : i64}> : (tensor<2x3x1xf32>, tensor<2x3x1xf32>) -> tensor<2x3x2xf32>
    return %5, %11, %13, %24, %30 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xui8>, tensor<2x3xf32>, tensor<2x3x2xf32>
  }
}
