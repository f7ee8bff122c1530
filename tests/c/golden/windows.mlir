module @program {
  func.func public @main(%arg0: tensor<1x6x6xf32>) -> (tensor<1x3x3xf32>, tensor<1x3x3xf32>, tensor<1x3x3xi64>) {
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
    %10 = stablehlo.constant dense<2147483647> : tensor<i32>
    %11 = "stablehlo.pad"(%arg0, %5) <{edge_padding_low = array<i64: 0, 1, 0>, edge_padding_high = array<i64: 0, 0, 0>, interior_padding = array<i64: 0, 0, 0>}> : (tensor<1x6x6xf32>, tensor<f32>) -> tensor<1x7x6xf32>
    %12 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<36xi32>
    %13 = "stablehlo.reshape"(%12) : (tensor<36xi32>) -> tensor<6x6xi32>
    %14 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<6x6xi32>) -> tensor<1x6x6xi32>
    %15 = "stablehlo.pad"(%14, %10) <{edge_padding_low = array<i64: 0, 1, 0>, edge_padding_high = array<i64: 0, 0, 0>, interior_padding = array<i64: 0, 0, 0>}> : (tensor<1x6x6xi32>, tensor<i32>) -> tensor<1x7x6xi32>
    %16 = "stablehlo.slice"(%11) <{start_indices = array<i64: 0, 0, 0>, limit_indices = array<i64: 1, 5, 5>, strides = array<i64: 1, 2, 2>}> : (tensor<1x7x6xf32>) -> tensor<1x3x3xf32>
    %17 = "stablehlo.slice"(%15) <{start_indices = array<i64: 0, 0, 0>, limit_indices = array<i64: 1, 5, 5>, strides = array<i64: 1, 2, 2>}> : (tensor<1x7x6xi32>) -> tensor<1x3x3xi32>
    %18 = "stablehlo.compare"(%16, %6) <{comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<1x3x3xf32>, tensor<1x3x3xf32>) -> tensor<1x3x3xi1>
    %19 = stablehlo.constant dense<2147483647> : tensor<1x3x3xi32>
    %20 = "stablehlo.select"(%18, %17, %19) : (tensor<1x3x3xi1>, tensor<1x3x3xi32>, tensor<1x3x3xi32>) -> tensor<1x3x3xi32>
    %21 = stablehlo.minimum %19, %20 : tensor<1x3x3xi32>
    %22 = "stablehlo.compare"(%16, %16) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<1x3x3xf32>, tensor<1x3x3xf32>) -> tensor<1x3x3xi1>
    %23 = stablehlo.constant dense<-1> : tensor<1x3x3xi32>
    %24 = "stablehlo.select"(%22, %17, %23) : (tensor<1x3x3xi1>, tensor<1x3x3xi32>, tensor<1x3x3xi32>) -> tensor<1x3x3xi32>
    %25 = stablehlo.maximum %23, %24 : tensor<1x3x3xi32>
    %26 = "stablehlo.slice"(%11) <{start_indices = array<i64: 0, 0, 1>, limit_indices = array<i64: 1, 5, 6>, strides = array<i64: 1, 2, 2>}> : (tensor<1x7x6xf32>) -> tensor<1x3x3xf32>
    %27 = "stablehlo.slice"(%15) <{start_indices = array<i64: 0, 0, 1>, limit_indices = array<i64: 1, 5, 6>, strides = array<i64: 1, 2, 2>}> : (tensor<1x7x6xi32>) -> tensor<1x3x3xi32>
    %28 = "stablehlo.compare"(%26, %6) <{comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<1x3x3xf32>, tensor<1x3x3xf32>) -> tensor<1x3x3xi1>
    %29 = "stablehlo.select"(%28, %27, %19) : (tensor<1x3x3xi1>, tensor<1x3x3xi32>, tensor<1x3x3xi32>) -> tensor<1x3x3xi32>
    %30 = stablehlo.minimum %21, %29 : tensor<1x3x3xi32>
    %31 = "stablehlo.compare"(%26, %26) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<1x3x3xf32>, tensor<1x3x3xf32>) -> tensor<1x3x3xi1>
    %32 = "stablehlo.select"(%31, %27, %23) : (tensor<1x3x3xi1>, tensor<1x3x3xi32>, tensor<1x3x3xi32>) -> tensor<1x3x3xi32>
    %33 = stablehlo.maximum %25, %32 : tensor<1x3x3xi32>
    %34 = "stablehlo.slice"(%11) <{start_indices = array<i64: 0, 1, 0>, limit_indices = array<i64: 1, 6, 5>, strides = array<i64: 1, 2, 2>}> : (tensor<1x7x6xf32>) -> tensor<1x3x3xf32>
    %35 = "stablehlo.slice"(%15) <{start_indices = array<i64: 0, 1, 0>, limit_indices = array<i64: 1, 6, 5>, strides = array<i64: 1, 2, 2>}> : (tensor<1x7x6xi32>) -> tensor<1x3x3xi32>
    %36 = "stablehlo.compare"(%34, %6) <{comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<1x3x3xf32>, tensor<1x3x3xf32>) -> tensor<1x3x3xi1>
    %37 = "stablehlo.select"(%36, %35, %19) : (tensor<1x3x3xi1>, tensor<1x3x3xi32>, tensor<1x3x3xi32>) -> tensor<1x3x3xi32>
    %38 = stablehlo.minimum %30, %37 : tensor<1x3x3xi32>
    %39 = "stablehlo.compare"(%34, %34) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<1x3x3xf32>, tensor<1x3x3xf32>) -> tensor<1x3x3xi1>
    %40 = "stablehlo.select"(%39, %35, %23) : (tensor<1x3x3xi1>, tensor<1x3x3xi32>, tensor<1x3x3xi32>) -> tensor<1x3x3xi32>
    %41 = stablehlo.maximum %33, %40 : tensor<1x3x3xi32>
    %42 = "stablehlo.slice"(%11) <{start_indices = array<i64: 0, 1, 1>, limit_indices = array<i64: 1, 6, 6>, strides = array<i64: 1, 2, 2>}> : (tensor<1x7x6xf32>) -> tensor<1x3x3xf32>
    %43 = "stablehlo.slice"(%15) <{start_indices = array<i64: 0, 1, 1>, limit_indices = array<i64: 1, 6, 6>, strides = array<i64: 1, 2, 2>}> : (tensor<1x7x6xi32>) -> tensor<1x3x3xi32>
    %44 = "stablehlo.compare"(%42, %6) <{comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<1x3x3xf32>, tensor<1x3x3xf32>) -> tensor<1x3x3xi1>
    %45 = "stablehlo.select"(%44, %43, %19) : (tensor<1x3x3xi1>, tensor<1x3x3xi32>, tensor<1x3x3xi32>) -> tensor<1x3x3xi32>
    %46 = stablehlo.minimum %38, %45 : tensor<1x3x3xi32>
    %47 = "stablehlo.compare"(%42, %42) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<1x3x3xf32>, tensor<1x3x3xf32>) -> tensor<1x3x3xi1>
    %48 = "stablehlo.select"(%47, %43, %23) : (tensor<1x3x3xi1>, tensor<1x3x3xi32>, tensor<1x3x3xi32>) -> tensor<1x3x3xi32>
    %49 = stablehlo.maximum %41, %48 : tensor<1x3x3xi32>
    %50 = stablehlo.constant dense<0> : tensor<1x3x3xi32>
    %51 = "stablehlo.compare"(%49, %50) <{comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<1x3x3xi32>, tensor<1x3x3xi32>) -> tensor<1x3x3xi1>
    %52 = "stablehlo.select"(%51, %49, %46) : (tensor<1x3x3xi1>, tensor<1x3x3xi32>, tensor<1x3x3xi32>) -> tensor<1x3x3xi32>
    %53 = "stablehlo.convert"(%52) : (tensor<1x3x3xi32>) -> tensor<1x3x3xi64>
    return %1, %6, %53 : tensor<1x3x3xf32>, tensor<1x3x3xf32>, tensor<1x3x3xi64>
  }
}
