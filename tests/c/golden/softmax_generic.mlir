module @program {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<4x16xf32>) -> (tensor<4x16xf32>) {
    %0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.constant dense<0xFF800000> : tensor<4x16xf32>
    %2 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<16xi32>
    %3 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<16xi32>
    %4 = "stablehlo.compare"(%2, %3) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
    %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64: 1>}> : (tensor<16xi1>) -> tensor<4x16xi1>
    %6 = "stablehlo.select"(%5, %arg1, %1) : (tensor<4x16xi1>, tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    %7 = "stablehlo.reduce"(%6, %0) <{dimensions = array<i64: 1>}> ({
    ^bb0(%8: tensor<f32>, %9: tensor<f32>):
      %10 = stablehlo.maximum %8, %9 : tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32>
    %11 = "stablehlo.reshape"(%7) : (tensor<4xf32>) -> tensor<4x1xf32>
    %12 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x1xf32>) -> tensor<4x16xf32>
    %13 = stablehlo.subtract %arg1, %12 : tensor<4x16xf32>
    %14 = stablehlo.exponential %13 : tensor<4x16xf32>
    %15 = stablehlo.constant dense<0.0> : tensor<f32>
    %16 = stablehlo.constant dense<0.0> : tensor<4x16xf32>
    %17 = "stablehlo.select"(%5, %14, %16) : (tensor<4x16xi1>, tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    %18 = "stablehlo.reduce"(%17, %15) <{dimensions = array<i64: 1>}> ({
    ^bb0(%19: tensor<f32>, %20: tensor<f32>):
      %21 = stablehlo.add %19, %20 : tensor<f32>
      "stablehlo.return"(%21) : (tensor<f32>) -> ()
    }) : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32>
    %22 = "stablehlo.reshape"(%18) : (tensor<4xf32>) -> tensor<4x1xf32>
    %23 = "stablehlo.broadcast_in_dim"(%22) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x1xf32>) -> tensor<4x16xf32>
    %24 = stablehlo.divide %14, %23 : tensor<4x16xf32>
    return %24 : tensor<4x16xf32>
  }
}
