module @program {
  func.func public @main(%arg0: tensor<5x6xf32>, %arg1: tensor<3xi64>, %arg2: tensor<3x6xf32>, %arg3: tensor<2x6xi64>) -> (tensor<5x3xf32>, tensor<2x6xf32>, tensor<3xf32>, tensor<5x6xf32>, tensor<5x6xf32>) {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 5, 1>}> : (tensor<5x6xf32>, tensor<3xi64>) -> tensor<5x3xf32>
    %1 = "stablehlo.gather"(%arg0, %arg3) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], operand_batching_dims = [1], start_indices_batching_dims = [1], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<5x6xf32>, tensor<2x6xi64>) -> tensor<2x6xf32>
    %2 = "stablehlo.reshape"(%arg1) : (tensor<3xi64>) -> tensor<3x1xi64>
    %3 = "stablehlo.concatenate"(%2, %2) <{dimension = 1 : i64}> : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x2xi64>
    %4 = "stablehlo.gather"(%arg0, %3) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<5x6xf32>, tensor<3x2xi64>) -> tensor<3xf32>
    %5 = "stablehlo.scatter"(%arg0, %2, %arg2) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%6: tensor<f32>, %7: tensor<f32>):
      %8 = stablehlo.add %6, %7 : tensor<f32>
      "stablehlo.return"(%8) : (tensor<f32>) -> ()
    }) : (tensor<5x6xf32>, tensor<3x1xi64>, tensor<3x6xf32>) -> tensor<5x6xf32>
    %9 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<6xi32>
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64: 1>}> : (tensor<6xi32>) -> tensor<2x6xi32>
    %11 = "stablehlo.convert"(%10) : (tensor<2x6xi32>) -> tensor<2x6xi64>
    %12 = "stablehlo.reshape"(%arg3) : (tensor<2x6xi64>) -> tensor<2x6x1xi64>
    %13 = "stablehlo.reshape"(%11) : (tensor<2x6xi64>) -> tensor<2x6x1xi64>
    %14 = "stablehlo.concatenate"(%12, %13) <{dimension = 2 : i64}> : (tensor<2x6x1xi64>, tensor<2x6x1xi64>) -> tensor<2x6x2xi64>
    %15 = stablehlo.constant dense<1.0> : tensor<2x6xf32>
    %16 = "stablehlo.scatter"(%arg0, %14, %15) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%17: tensor<f32>, %18: tensor<f32>):
      "stablehlo.return"(%18) : (tensor<f32>) -> ()
    }) : (tensor<5x6xf32>, tensor<2x6x2xi64>, tensor<2x6xf32>) -> tensor<5x6xf32>
    return %0, %1, %4, %5, %16 : tensor<5x3xf32>, tensor<2x6xf32>, tensor<3xf32>, tensor<5x6xf32>, tensor<5x6xf32>
  }
}
