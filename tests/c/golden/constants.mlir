module @program {
  func.func public @main() -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<i1>, tensor<i1>, tensor<i1>, tensor<i1>, tensor<i1>, tensor<i1>, tensor<ui8>, tensor<ui8>, tensor<ui8>, tensor<ui8>, tensor<ui8>, tensor<ui8>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<complex<f32>>, tensor<complex<f32>>, tensor<complex<f32>>, tensor<complex<f32>>, tensor<complex<f32>>, tensor<complex<f32>>, tensor<f32>, tensor<ui64>, tensor<2x0xf16>, tensor<2xi32>, tensor<2x3xbf16>) {
    %0 = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.constant dense<-0.0> : tensor<f32>
    %2 = stablehlo.constant dense<1.5> : tensor<f32>
    %3 = stablehlo.constant dense<0.10000000149011612> : tensor<f32>
    %4 = stablehlo.constant dense<1.0000000150474662e+30> : tensor<f32>
    %5 = stablehlo.constant dense<1.4012984643248171e-45> : tensor<f32>
    %6 = stablehlo.constant dense<0.0> : tensor<f64>
    %7 = stablehlo.constant dense<-0.0> : tensor<f64>
    %8 = stablehlo.constant dense<1.5> : tensor<f64>
    %9 = stablehlo.constant dense<0.1> : tensor<f64>
    %10 = stablehlo.constant dense<1.0e+30> : tensor<f64>
    %11 = stablehlo.constant dense<1.0e-45> : tensor<f64>
    %12 = stablehlo.constant dense<0.0> : tensor<bf16>
    %13 = stablehlo.constant dense<-0.0> : tensor<bf16>
    %14 = stablehlo.constant dense<1.5> : tensor<bf16>
    %15 = stablehlo.constant dense<0.1> : tensor<bf16>
    %16 = stablehlo.constant dense<1.0e+30> : tensor<bf16>
    %17 = stablehlo.constant dense<1.0e-45> : tensor<bf16>
    %18 = stablehlo.constant dense<0.0> : tensor<f8E4M3FN>
    %19 = stablehlo.constant dense<-0.0> : tensor<f8E4M3FN>
    %20 = stablehlo.constant dense<1.5> : tensor<f8E4M3FN>
    %21 = stablehlo.constant dense<0.1> : tensor<f8E4M3FN>
    %22 = stablehlo.constant dense<448.0> : tensor<f8E4M3FN>
    %23 = stablehlo.constant dense<1.0e-45> : tensor<f8E4M3FN>
    %24 = stablehlo.constant dense<false> : tensor<i1>
    %25 = stablehlo.constant dense<true> : tensor<i1>
    %26 = stablehlo.constant dense<0> : tensor<ui8>
    %27 = stablehlo.constant dense<1> : tensor<ui8>
    %28 = stablehlo.constant dense<255> : tensor<ui8>
    %29 = stablehlo.constant dense<0> : tensor<i64>
    %30 = stablehlo.constant dense<1> : tensor<i64>
    %31 = stablehlo.constant dense<9223372036854775807> : tensor<i64>
    %32 = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
    %33 = stablehlo.constant dense<(-0.0, 0.0)> : tensor<complex<f32>>
    %34 = stablehlo.constant dense<(1.5, 0.0)> : tensor<complex<f32>>
    %35 = stablehlo.constant dense<(0.1, 0.0)> : tensor<complex<f32>>
    %36 = stablehlo.constant dense<(1.0e+30, 0.0)> : tensor<complex<f32>>
    %37 = stablehlo.constant dense<(1.0e-45, 0.0)> : tensor<complex<f32>>
    %38 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %39 = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
    %40 = stablehlo.constant dense<0.0> : tensor<2x0xf16>
    %41 = stablehlo.constant dense<[3, -1]> : tensor<2xi32>
    %42 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<3xi32>
    %43 = "stablehlo.convert"(%42) : (tensor<3xi32>) -> tensor<3xbf16>
    %44 = "stablehlo.broadcast_in_dim"(%43) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xbf16>) -> tensor<2x3xbf16>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %24, %25, %25, %25, %25, %26, %26, %27, %26, %28, %26, %29, %29, %30, %29, %31, %29, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %44 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<i1>, tensor<i1>, tensor<i1>, tensor<i1>, tensor<i1>, tensor<i1>, tensor<ui8>, tensor<ui8>, tensor<ui8>, tensor<ui8>, tensor<ui8>, tensor<ui8>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<complex<f32>>, tensor<complex<f32>>, tensor<complex<f32>>, tensor<complex<f32>>, tensor<complex<f32>>, tensor<complex<f32>>, tensor<f32>, tensor<ui64>, tensor<2x0xf16>, tensor<2xi32>, tensor<2x3xbf16>
  }
}
