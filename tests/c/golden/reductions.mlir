module @program {
  func.func public @main(%arg0: tensor<4x8xbf16>) -> (tensor<4xbf16>, tensor<1x8xbf16>, tensor<bf16>, tensor<4xi64>, tensor<4xbf16>, tensor<4x8xbf16>) {
    %0 = "stablehlo.convert"(%arg0) : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %1 = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = "stablehlo.reduce"(%0, %1) <{dimensions = array<i64: 1>}> ({
    ^bb0(%3: tensor<f32>, %4: tensor<f32>):
      %5 = stablehlo.add %3, %4 : tensor<f32>
      "stablehlo.return"(%5) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %6 = "stablehlo.convert"(%2) : (tensor<4xf32>) -> tensor<4xbf16>
    %7 = "stablehlo.compare"(%0, %0) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
    %8 = stablehlo.constant dense<false> : tensor<i1>
    %9 = "stablehlo.reduce"(%7, %8) <{dimensions = array<i64: 0>}> ({
    ^bb0(%10: tensor<i1>, %11: tensor<i1>):
      %12 = stablehlo.or %10, %11 : tensor<i1>
      "stablehlo.return"(%12) : (tensor<i1>) -> ()
    }) : (tensor<4x8xi1>, tensor<i1>) -> tensor<8xi1>
    %13 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %14 = "stablehlo.reduce"(%0, %13) <{dimensions = array<i64: 0>}> ({
    ^bb0(%15: tensor<f32>, %16: tensor<f32>):
      %17 = stablehlo.maximum %15, %16 : tensor<f32>
      "stablehlo.return"(%17) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
    %18 = stablehlo.constant dense<0x7FC00000> : tensor<8xf32>
    %19 = "stablehlo.select"(%9, %18, %14) : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %20 = "stablehlo.convert"(%19) : (tensor<8xf32>) -> tensor<8xbf16>
    %21 = "stablehlo.reshape"(%20) : (tensor<8xbf16>) -> tensor<1x8xbf16>
    %22 = "stablehlo.reduce"(%0, %1) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%23: tensor<f32>, %24: tensor<f32>):
      %25 = stablehlo.add %23, %24 : tensor<f32>
      "stablehlo.return"(%25) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
    %26 = stablehlo.constant dense<32.0> : tensor<f32>
    %27 = stablehlo.divide %22, %26 : tensor<f32>
    %28 = "stablehlo.convert"(%27) : (tensor<f32>) -> tensor<bf16>
    %29 = "stablehlo.reduce"(%7, %8) <{dimensions = array<i64: 1>}> ({
    ^bb0(%30: tensor<i1>, %31: tensor<i1>):
      %32 = stablehlo.or %30, %31 : tensor<i1>
      "stablehlo.return"(%32) : (tensor<i1>) -> ()
    }) : (tensor<4x8xi1>, tensor<i1>) -> tensor<4xi1>
    %33 = "stablehlo.reduce"(%0, %13) <{dimensions = array<i64: 1>}> ({
    ^bb0(%34: tensor<f32>, %35: tensor<f32>):
      %36 = stablehlo.maximum %34, %35 : tensor<f32>
      "stablehlo.return"(%36) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %37 = stablehlo.constant dense<0x7FC00000> : tensor<4xf32>
    %38 = "stablehlo.select"(%29, %37, %33) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %39 = "stablehlo.convert"(%38) : (tensor<4xf32>) -> tensor<4xbf16>
    %40 = "stablehlo.reshape"(%39) : (tensor<4xbf16>) -> tensor<4x1xbf16>
    %41 = "stablehlo.compare"(%arg0, %arg0) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xi1>
    %42 = "stablehlo.broadcast_in_dim"(%40) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x1xbf16>) -> tensor<4x8xbf16>
    %43 = "stablehlo.compare"(%arg0, %42) <{comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xi1>
    %44 = stablehlo.or %43, %41 : tensor<4x8xi1>
    %45 = stablehlo.constant dense<2147483647> : tensor<i32>
    %46 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<8xi32>
    %47 = "stablehlo.broadcast_in_dim"(%46) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8xi32>) -> tensor<4x8xi32>
    %48 = stablehlo.constant dense<2147483647> : tensor<4x8xi32>
    %49 = "stablehlo.select"(%44, %47, %48) : (tensor<4x8xi1>, tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi32>
    %50 = "stablehlo.reduce"(%49, %45) <{dimensions = array<i64: 1>}> ({
    ^bb0(%51: tensor<i32>, %52: tensor<i32>):
      %53 = stablehlo.minimum %51, %52 : tensor<i32>
      "stablehlo.return"(%53) : (tensor<i32>) -> ()
    }) : (tensor<4x8xi32>, tensor<i32>) -> tensor<4xi32>
    %54 = "stablehlo.convert"(%50) : (tensor<4xi32>) -> tensor<4xi64>
    %55 = "stablehlo.reduce_window"(%0, %1) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [0, 7]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 8>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%56: tensor<f32>, %57: tensor<f32>):
      %58 = stablehlo.add %56, %57 : tensor<f32>
      "stablehlo.return"(%58) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %59 = "stablehlo.convert"(%55) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    return %6, %21, %28, %54, %39, %59 : tensor<4xbf16>, tensor<1x8xbf16>, tensor<bf16>, tensor<4xi64>, tensor<4xbf16>, tensor<4x8xbf16>
  }
}
