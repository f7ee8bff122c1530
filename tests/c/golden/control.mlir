module @program {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<i32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = "stablehlo.while"(%0, %arg1) ({
    ^bb0(%2: tensor<i32>, %3: tensor<3xf32>):
      %4 = "stablehlo.compare"(%2, %arg0) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%4) : (tensor<i1>) -> ()
    }, {
    ^bb0(%5: tensor<i32>, %6: tensor<3xf32>):
      %7 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %5, %7 : tensor<i32>
      %9 = stablehlo.constant dense<2.0> : tensor<3xf32>
      %10 = stablehlo.multiply %6, %9 : tensor<3xf32>
      "stablehlo.return"(%8, %10) : (tensor<i32>, tensor<3xf32>) -> ()
    }) : (tensor<i32>, tensor<3xf32>) -> (tensor<i32>, tensor<3xf32>)
    %11 = stablehlo.constant dense<5> : tensor<i32>
    %12 = "stablehlo.compare"(%arg0, %11) <{comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %13 = "stablehlo.if"(%12) ({
      %14 = stablehlo.negate %arg1 : tensor<3xf32>
      "stablehlo.return"(%14) : (tensor<3xf32>) -> ()
    }, {
      "stablehlo.return"(%arg1) : (tensor<3xf32>) -> ()
    }) : (tensor<i1>) -> tensor<3xf32>
    %15 = stablehlo.constant dense<0.0> : tensor<3xf32>
    %16 = "stablehlo.compare"(%arg1, %15) <{comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %17 = stablehlo.constant dense<true> : tensor<i1>
    %18 = "stablehlo.reduce"(%16, %17) <{dimensions = array<i64: 0>}> ({
    ^bb0(%19: tensor<i1>, %20: tensor<i1>):
      %21 = stablehlo.and %19, %20 : tensor<i1>
      "stablehlo.return"(%21) : (tensor<i1>) -> ()
    }) : (tensor<3xi1>, tensor<i1>) -> tensor<i1>
    %22 = stablehlo.constant dense<9.0> : tensor<3xf32>
    %23 = "stablehlo.compare"(%arg1, %22) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %24 = "stablehlo.reduce"(%23, %17) <{dimensions = array<i64: 0>}> ({
    ^bb0(%25: tensor<i1>, %26: tensor<i1>):
      %27 = stablehlo.and %25, %26 : tensor<i1>
      "stablehlo.return"(%27) : (tensor<i1>) -> ()
    }) : (tensor<3xi1>, tensor<i1>) -> tensor<i1>
    %28 = stablehlo.constant dense<2> : tensor<i32>
    %29 = "stablehlo.select"(%24, %0, %28) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %30 = stablehlo.constant dense<1> : tensor<i32>
    %31 = "stablehlo.select"(%18, %29, %30) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    return %1#1, %13, %31 : tensor<3xf32>, tensor<3xf32>, tensor<i32>
  }
}
