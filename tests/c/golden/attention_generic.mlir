module @program {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<2x1x8xf32>, %arg2: tensor<2x16x8xf32> {tf.aliasing_output = 1 : i32}, %arg3: tensor<2x16x8xf32> {tf.aliasing_output = 2 : i32}, %arg4: tensor<2x1x8xf32>) -> (tensor<2x1x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>) {
    %0 = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.add %arg0, %0 : tensor<i32>
    %2 = stablehlo.constant dense<0> : tensor<i32>
    %3 = "stablehlo.dynamic_update_slice"(%arg2, %arg4, %2, %arg0, %2) : (tensor<2x16x8xf32>, tensor<2x1x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x16x8xf32>
    %4 = "stablehlo.dynamic_update_slice"(%arg3, %arg4, %2, %arg0, %2) : (tensor<2x16x8xf32>, tensor<2x1x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x16x8xf32>
    %5 = stablehlo.constant dense<0.0> : tensor<f32>
    %6 = "stablehlo.dot_general"(%arg1, %3) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<2x1x8xf32>, tensor<2x16x8xf32>) -> tensor<2x1x16xf32>
    %7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %8 = stablehlo.constant dense<0xFF800000> : tensor<2x1x16xf32>
    %9 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<16xi32>
    %10 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<16xi32>
    %11 = "stablehlo.compare"(%9, %10) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
    %12 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64: 2>}> : (tensor<16xi1>) -> tensor<2x1x16xi1>
    %13 = "stablehlo.select"(%12, %6, %8) : (tensor<2x1x16xi1>, tensor<2x1x16xf32>, tensor<2x1x16xf32>) -> tensor<2x1x16xf32>
    %14 = "stablehlo.reduce"(%13, %7) <{dimensions = array<i64: 2>}> ({
    ^bb0(%15: tensor<f32>, %16: tensor<f32>):
      %17 = stablehlo.maximum %15, %16 : tensor<f32>
      "stablehlo.return"(%17) : (tensor<f32>) -> ()
    }) : (tensor<2x1x16xf32>, tensor<f32>) -> tensor<2x1xf32>
    %18 = "stablehlo.reshape"(%14) : (tensor<2x1xf32>) -> tensor<2x1x1xf32>
    %19 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<2x1x1xf32>) -> tensor<2x1x16xf32>
    %20 = stablehlo.subtract %6, %19 : tensor<2x1x16xf32>
    %21 = stablehlo.exponential %20 : tensor<2x1x16xf32>
    %22 = stablehlo.constant dense<0.0> : tensor<2x1x16xf32>
    %23 = "stablehlo.select"(%12, %21, %22) : (tensor<2x1x16xi1>, tensor<2x1x16xf32>, tensor<2x1x16xf32>) -> tensor<2x1x16xf32>
    %24 = "stablehlo.reduce"(%23, %5) <{dimensions = array<i64: 2>}> ({
    ^bb0(%25: tensor<f32>, %26: tensor<f32>):
      %27 = stablehlo.add %25, %26 : tensor<f32>
      "stablehlo.return"(%27) : (tensor<f32>) -> ()
    }) : (tensor<2x1x16xf32>, tensor<f32>) -> tensor<2x1xf32>
    %28 = "stablehlo.reshape"(%24) : (tensor<2x1xf32>) -> tensor<2x1x1xf32>
    %29 = "stablehlo.broadcast_in_dim"(%28) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<2x1x1xf32>) -> tensor<2x1x16xf32>
    %30 = stablehlo.divide %21, %29 : tensor<2x1x16xf32>
    %31 = "stablehlo.select"(%12, %30, %22) : (tensor<2x1x16xi1>, tensor<2x1x16xf32>, tensor<2x1x16xf32>) -> tensor<2x1x16xf32>
    %32 = stablehlo.constant dense<0.0> : tensor<2x16x8xf32>
    %33 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64: 1>}> : (tensor<16xi1>) -> tensor<2x16x8xi1>
    %34 = "stablehlo.select"(%33, %4, %32) : (tensor<2x16x8xi1>, tensor<2x16x8xf32>, tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
    %35 = "stablehlo.dot_general"(%31, %34) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<2x1x16xf32>, tensor<2x16x8xf32>) -> tensor<2x1x8xf32>
    return %35, %3, %4 : tensor<2x1x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>
  }
}
