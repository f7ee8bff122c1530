module @program {
  func.func public @main(%arg0: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>, tensor<3x8xf32>, tensor<3x8xi64>) {
    %0 = stablehlo.constant dense<0.0> : tensor<4x8xf32>
    %1 = "stablehlo.compare"(%arg0, %0) <{comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
    %2 = "stablehlo.select"(%1, %0, %arg0) : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "stablehlo.compare"(%arg0, %arg0) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
    %4 = stablehlo.constant dense<0x7FC00000> : tensor<4x8xf32>
    %5 = "stablehlo.select"(%3, %4, %2) : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %6 = "stablehlo.bitcast_convert"(%5) : (tensor<4x8xf32>) -> tensor<4x8xi32>
    %7 = stablehlo.constant dense<31> : tensor<4x8xi32>
    %8 = stablehlo.shift_right_arithmetic %6, %7 : tensor<4x8xi32>
    %9 = stablehlo.constant dense<2147483647> : tensor<4x8xi32>
    %10 = stablehlo.and %8, %9 : tensor<4x8xi32>
    %11 = stablehlo.xor %6, %10 : tensor<4x8xi32>
    %12 = stablehlo.not %11 : tensor<4x8xi32>
    %13 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<8xi64>
    %14 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8xi64>) -> tensor<4x8xi64>
    %15 = "stablehlo.convert"(%12) : (tensor<4x8xi32>) -> tensor<4x8xi64>
    %16 = stablehlo.constant dense<32> : tensor<4x8xi64>
    %17 = stablehlo.shift_left %15, %16 : tensor<4x8xi64>
    %18 = stablehlo.or %17, %14 : tensor<4x8xi64>
    %19 = "stablehlo.sort"(%18) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%20: tensor<i64>, %21: tensor<i64>):
      %22 = "stablehlo.compare"(%20, %21) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
      "stablehlo.return"(%22) : (tensor<i1>) -> ()
    }) : (tensor<4x8xi64>) -> tensor<4x8xi64>
    %23 = "stablehlo.convert"(%19) : (tensor<4x8xi64>) -> tensor<4x8xi32>
    %24 = "stablehlo.convert"(%23) : (tensor<4x8xi32>) -> tensor<4x8xi64>
    %25 = "stablehlo.gather"(%arg0, %23) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<4x8xf32>, tensor<4x8xi32>) -> tensor<4x8xf32>
    %26 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<4xi64>
    %27 = "stablehlo.broadcast_in_dim"(%26) <{broadcast_dimensions = array<i64: 0>}> : (tensor<4xi64>) -> tensor<4x8xi64>
    %28 = stablehlo.or %17, %27 : tensor<4x8xi64>
    %29 = "stablehlo.sort"(%28) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%30: tensor<i64>, %31: tensor<i64>):
      %32 = "stablehlo.compare"(%30, %31) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
      "stablehlo.return"(%32) : (tensor<i1>) -> ()
    }) : (tensor<4x8xi64>) -> tensor<4x8xi64>
    %33 = "stablehlo.convert"(%29) : (tensor<4x8xi64>) -> tensor<4x8xi32>
    %34 = "stablehlo.convert"(%33) : (tensor<4x8xi32>) -> tensor<4x8xi64>
    %35 = "stablehlo.gather"(%arg0, %33) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], operand_batching_dims = [1], start_indices_batching_dims = [1], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<4x8xf32>, tensor<4x8xi32>) -> tensor<4x8xf32>
    %36 = "stablehlo.slice"(%34) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 3, 8>, strides = array<i64: 1, 1>}> : (tensor<4x8xi64>) -> tensor<3x8xi64>
    %37 = "stablehlo.slice"(%35) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 3, 8>, strides = array<i64: 1, 1>}> : (tensor<4x8xf32>) -> tensor<3x8xf32>
    return %25, %24, %37, %36 : tensor<4x8xf32>, tensor<4x8xi64>, tensor<3x8xf32>, tensor<3x8xi64>
  }
}
