module @program {
  func.func public @main(%arg0: tensor<3x3xf32>, %arg1: tensor<ui64>) -> (tensor<6xui32>, tensor<3x2xcomplex<f32>>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3xf32>, tensor<3x3xf32>, tensor<3x3xf32>) {
    %0 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<2xui64>
    %1 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64>}> : (tensor<ui64>) -> tensor<2xui64>
    %2 = stablehlo.add %0, %1 : tensor<2xui64>
    %3 = stablehlo.constant dense<32> : tensor<ui64>
    %4 = "stablehlo.convert"(%arg1) : (tensor<ui64>) -> tensor<ui32>
    %5 = stablehlo.shift_right_logical %arg1, %3 : tensor<ui64>
    %6 = "stablehlo.convert"(%5) : (tensor<ui64>) -> tensor<ui32>
    %7 = "stablehlo.convert"(%2) : (tensor<2xui64>) -> tensor<2xui32>
    %8 = stablehlo.constant dense<32> : tensor<2xui64>
    %9 = stablehlo.shift_right_logical %2, %8 : tensor<2xui64>
    %10 = "stablehlo.convert"(%9) : (tensor<2xui64>) -> tensor<2xui32>
    %11 = stablehlo.constant dense<0> : tensor<2xui32>
    %12 = "stablehlo.convert"(%7) : (tensor<2xui32>) -> tensor<2xui64>
    %13 = stablehlo.constant dense<3528531795> : tensor<2xui64>
    %14 = stablehlo.multiply %12, %13 : tensor<2xui64>
    %15 = stablehlo.shift_right_logical %14, %8 : tensor<2xui64>
    %16 = "stablehlo.convert"(%15) : (tensor<2xui64>) -> tensor<2xui32>
    %17 = stablehlo.constant dense<3528531795> : tensor<2xui32>
    %18 = stablehlo.multiply %7, %17 : tensor<2xui32>
    %19 = stablehlo.constant dense<0> : tensor<2xui64>
    %20 = stablehlo.constant dense<3449720151> : tensor<2xui64>
    %21 = stablehlo.multiply %19, %20 : tensor<2xui64>
    %22 = stablehlo.shift_right_logical %21, %8 : tensor<2xui64>
    %23 = "stablehlo.convert"(%22) : (tensor<2xui64>) -> tensor<2xui32>
    %24 = stablehlo.constant dense<3449720151> : tensor<2xui32>
    %25 = stablehlo.multiply %11, %24 : tensor<2xui32>
    %26 = stablehlo.xor %23, %10 : tensor<2xui32>
    %27 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %28 = stablehlo.xor %26, %27 : tensor<2xui32>
    %29 = stablehlo.xor %16, %11 : tensor<2xui32>
    %30 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %31 = stablehlo.xor %29, %30 : tensor<2xui32>
    %32 = stablehlo.constant dense<2654435769> : tensor<ui32>
    %33 = stablehlo.add %4, %32 : tensor<ui32>
    %34 = stablehlo.constant dense<3144134277> : tensor<ui32>
    %35 = stablehlo.add %6, %34 : tensor<ui32>
    %36 = "stablehlo.convert"(%28) : (tensor<2xui32>) -> tensor<2xui64>
    %37 = stablehlo.multiply %36, %13 : tensor<2xui64>
    %38 = stablehlo.shift_right_logical %37, %8 : tensor<2xui64>
    %39 = "stablehlo.convert"(%38) : (tensor<2xui64>) -> tensor<2xui32>
    %40 = stablehlo.multiply %28, %17 : tensor<2xui32>
    %41 = "stablehlo.convert"(%31) : (tensor<2xui32>) -> tensor<2xui64>
    %42 = stablehlo.multiply %41, %20 : tensor<2xui64>
    %43 = stablehlo.shift_right_logical %42, %8 : tensor<2xui64>
    %44 = "stablehlo.convert"(%43) : (tensor<2xui64>) -> tensor<2xui32>
    %45 = stablehlo.multiply %31, %24 : tensor<2xui32>
    %46 = stablehlo.xor %44, %25 : tensor<2xui32>
    %47 = "stablehlo.broadcast_in_dim"(%33) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %48 = stablehlo.xor %46, %47 : tensor<2xui32>
    %49 = stablehlo.xor %39, %18 : tensor<2xui32>
    %50 = "stablehlo.broadcast_in_dim"(%35) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %51 = stablehlo.xor %49, %50 : tensor<2xui32>
    %52 = stablehlo.add %33, %32 : tensor<ui32>
    %53 = stablehlo.add %35, %34 : tensor<ui32>
    %54 = "stablehlo.convert"(%48) : (tensor<2xui32>) -> tensor<2xui64>
    %55 = stablehlo.multiply %54, %13 : tensor<2xui64>
    %56 = stablehlo.shift_right_logical %55, %8 : tensor<2xui64>
    %57 = "stablehlo.convert"(%56) : (tensor<2xui64>) -> tensor<2xui32>
    %58 = stablehlo.multiply %48, %17 : tensor<2xui32>
    %59 = "stablehlo.convert"(%51) : (tensor<2xui32>) -> tensor<2xui64>
    %60 = stablehlo.multiply %59, %20 : tensor<2xui64>
    %61 = stablehlo.shift_right_logical %60, %8 : tensor<2xui64>
    %62 = "stablehlo.convert"(%61) : (tensor<2xui64>) -> tensor<2xui32>
    %63 = stablehlo.multiply %51, %24 : tensor<2xui32>
    %64 = stablehlo.xor %62, %45 : tensor<2xui32>
    %65 = "stablehlo.broadcast_in_dim"(%52) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %66 = stablehlo.xor %64, %65 : tensor<2xui32>
    %67 = stablehlo.xor %57, %40 : tensor<2xui32>
    %68 = "stablehlo.broadcast_in_dim"(%53) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %69 = stablehlo.xor %67, %68 : tensor<2xui32>
    %70 = stablehlo.add %52, %32 : tensor<ui32>
    %71 = stablehlo.add %53, %34 : tensor<ui32>
    %72 = "stablehlo.convert"(%66) : (tensor<2xui32>) -> tensor<2xui64>
    %73 = stablehlo.multiply %72, %13 : tensor<2xui64>
    %74 = stablehlo.shift_right_logical %73, %8 : tensor<2xui64>
    %75 = "stablehlo.convert"(%74) : (tensor<2xui64>) -> tensor<2xui32>
    %76 = stablehlo.multiply %66, %17 : tensor<2xui32>
    %77 = "stablehlo.convert"(%69) : (tensor<2xui32>) -> tensor<2xui64>
    %78 = stablehlo.multiply %77, %20 : tensor<2xui64>
    %79 = stablehlo.shift_right_logical %78, %8 : tensor<2xui64>
    %80 = "stablehlo.convert"(%79) : (tensor<2xui64>) -> tensor<2xui32>
    %81 = stablehlo.multiply %69, %24 : tensor<2xui32>
    %82 = stablehlo.xor %80, %63 : tensor<2xui32>
    %83 = "stablehlo.broadcast_in_dim"(%70) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %84 = stablehlo.xor %82, %83 : tensor<2xui32>
    %85 = stablehlo.xor %75, %58 : tensor<2xui32>
    %86 = "stablehlo.broadcast_in_dim"(%71) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %87 = stablehlo.xor %85, %86 : tensor<2xui32>
    %88 = stablehlo.add %70, %32 : tensor<ui32>
    %89 = stablehlo.add %71, %34 : tensor<ui32>
    %90 = "stablehlo.convert"(%84) : (tensor<2xui32>) -> tensor<2xui64>
    %91 = stablehlo.multiply %90, %13 : tensor<2xui64>
    %92 = stablehlo.shift_right_logical %91, %8 : tensor<2xui64>
    %93 = "stablehlo.convert"(%92) : (tensor<2xui64>) -> tensor<2xui32>
    %94 = stablehlo.multiply %84, %17 : tensor<2xui32>
    %95 = "stablehlo.convert"(%87) : (tensor<2xui32>) -> tensor<2xui64>
    %96 = stablehlo.multiply %95, %20 : tensor<2xui64>
    %97 = stablehlo.shift_right_logical %96, %8 : tensor<2xui64>
    %98 = "stablehlo.convert"(%97) : (tensor<2xui64>) -> tensor<2xui32>
    %99 = stablehlo.multiply %87, %24 : tensor<2xui32>
    %100 = stablehlo.xor %98, %81 : tensor<2xui32>
    %101 = "stablehlo.broadcast_in_dim"(%88) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %102 = stablehlo.xor %100, %101 : tensor<2xui32>
    %103 = stablehlo.xor %93, %76 : tensor<2xui32>
    %104 = "stablehlo.broadcast_in_dim"(%89) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %105 = stablehlo.xor %103, %104 : tensor<2xui32>
    %106 = stablehlo.add %88, %32 : tensor<ui32>
    %107 = stablehlo.add %89, %34 : tensor<ui32>
    %108 = "stablehlo.convert"(%102) : (tensor<2xui32>) -> tensor<2xui64>
    %109 = stablehlo.multiply %108, %13 : tensor<2xui64>
    %110 = stablehlo.shift_right_logical %109, %8 : tensor<2xui64>
    %111 = "stablehlo.convert"(%110) : (tensor<2xui64>) -> tensor<2xui32>
    %112 = stablehlo.multiply %102, %17 : tensor<2xui32>
    %113 = "stablehlo.convert"(%105) : (tensor<2xui32>) -> tensor<2xui64>
    %114 = stablehlo.multiply %113, %20 : tensor<2xui64>
    %115 = stablehlo.shift_right_logical %114, %8 : tensor<2xui64>
    %116 = "stablehlo.convert"(%115) : (tensor<2xui64>) -> tensor<2xui32>
    %117 = stablehlo.multiply %105, %24 : tensor<2xui32>
    %118 = stablehlo.xor %116, %99 : tensor<2xui32>
    %119 = "stablehlo.broadcast_in_dim"(%106) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %120 = stablehlo.xor %118, %119 : tensor<2xui32>
    %121 = stablehlo.xor %111, %94 : tensor<2xui32>
    %122 = "stablehlo.broadcast_in_dim"(%107) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %123 = stablehlo.xor %121, %122 : tensor<2xui32>
    %124 = stablehlo.add %106, %32 : tensor<ui32>
    %125 = stablehlo.add %107, %34 : tensor<ui32>
    %126 = "stablehlo.convert"(%120) : (tensor<2xui32>) -> tensor<2xui64>
    %127 = stablehlo.multiply %126, %13 : tensor<2xui64>
    %128 = stablehlo.shift_right_logical %127, %8 : tensor<2xui64>
    %129 = "stablehlo.convert"(%128) : (tensor<2xui64>) -> tensor<2xui32>
    %130 = stablehlo.multiply %120, %17 : tensor<2xui32>
    %131 = "stablehlo.convert"(%123) : (tensor<2xui32>) -> tensor<2xui64>
    %132 = stablehlo.multiply %131, %20 : tensor<2xui64>
    %133 = stablehlo.shift_right_logical %132, %8 : tensor<2xui64>
    %134 = "stablehlo.convert"(%133) : (tensor<2xui64>) -> tensor<2xui32>
    %135 = stablehlo.multiply %123, %24 : tensor<2xui32>
    %136 = stablehlo.xor %134, %117 : tensor<2xui32>
    %137 = "stablehlo.broadcast_in_dim"(%124) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %138 = stablehlo.xor %136, %137 : tensor<2xui32>
    %139 = stablehlo.xor %129, %112 : tensor<2xui32>
    %140 = "stablehlo.broadcast_in_dim"(%125) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %141 = stablehlo.xor %139, %140 : tensor<2xui32>
    %142 = stablehlo.add %124, %32 : tensor<ui32>
    %143 = stablehlo.add %125, %34 : tensor<ui32>
    %144 = "stablehlo.convert"(%138) : (tensor<2xui32>) -> tensor<2xui64>
    %145 = stablehlo.multiply %144, %13 : tensor<2xui64>
    %146 = stablehlo.shift_right_logical %145, %8 : tensor<2xui64>
    %147 = "stablehlo.convert"(%146) : (tensor<2xui64>) -> tensor<2xui32>
    %148 = stablehlo.multiply %138, %17 : tensor<2xui32>
    %149 = "stablehlo.convert"(%141) : (tensor<2xui32>) -> tensor<2xui64>
    %150 = stablehlo.multiply %149, %20 : tensor<2xui64>
    %151 = stablehlo.shift_right_logical %150, %8 : tensor<2xui64>
    %152 = "stablehlo.convert"(%151) : (tensor<2xui64>) -> tensor<2xui32>
    %153 = stablehlo.multiply %141, %24 : tensor<2xui32>
    %154 = stablehlo.xor %152, %135 : tensor<2xui32>
    %155 = "stablehlo.broadcast_in_dim"(%142) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %156 = stablehlo.xor %154, %155 : tensor<2xui32>
    %157 = stablehlo.xor %147, %130 : tensor<2xui32>
    %158 = "stablehlo.broadcast_in_dim"(%143) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %159 = stablehlo.xor %157, %158 : tensor<2xui32>
    %160 = stablehlo.add %142, %32 : tensor<ui32>
    %161 = stablehlo.add %143, %34 : tensor<ui32>
    %162 = "stablehlo.convert"(%156) : (tensor<2xui32>) -> tensor<2xui64>
    %163 = stablehlo.multiply %162, %13 : tensor<2xui64>
    %164 = stablehlo.shift_right_logical %163, %8 : tensor<2xui64>
    %165 = "stablehlo.convert"(%164) : (tensor<2xui64>) -> tensor<2xui32>
    %166 = stablehlo.multiply %156, %17 : tensor<2xui32>
    %167 = "stablehlo.convert"(%159) : (tensor<2xui32>) -> tensor<2xui64>
    %168 = stablehlo.multiply %167, %20 : tensor<2xui64>
    %169 = stablehlo.shift_right_logical %168, %8 : tensor<2xui64>
    %170 = "stablehlo.convert"(%169) : (tensor<2xui64>) -> tensor<2xui32>
    %171 = stablehlo.multiply %159, %24 : tensor<2xui32>
    %172 = stablehlo.xor %170, %153 : tensor<2xui32>
    %173 = "stablehlo.broadcast_in_dim"(%160) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %174 = stablehlo.xor %172, %173 : tensor<2xui32>
    %175 = stablehlo.xor %165, %148 : tensor<2xui32>
    %176 = "stablehlo.broadcast_in_dim"(%161) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %177 = stablehlo.xor %175, %176 : tensor<2xui32>
    %178 = stablehlo.add %160, %32 : tensor<ui32>
    %179 = stablehlo.add %161, %34 : tensor<ui32>
    %180 = "stablehlo.convert"(%174) : (tensor<2xui32>) -> tensor<2xui64>
    %181 = stablehlo.multiply %180, %13 : tensor<2xui64>
    %182 = stablehlo.shift_right_logical %181, %8 : tensor<2xui64>
    %183 = "stablehlo.convert"(%182) : (tensor<2xui64>) -> tensor<2xui32>
    %184 = stablehlo.multiply %174, %17 : tensor<2xui32>
    %185 = "stablehlo.convert"(%177) : (tensor<2xui32>) -> tensor<2xui64>
    %186 = stablehlo.multiply %185, %20 : tensor<2xui64>
    %187 = stablehlo.shift_right_logical %186, %8 : tensor<2xui64>
    %188 = "stablehlo.convert"(%187) : (tensor<2xui64>) -> tensor<2xui32>
    %189 = stablehlo.multiply %177, %24 : tensor<2xui32>
    %190 = stablehlo.xor %188, %171 : tensor<2xui32>
    %191 = "stablehlo.broadcast_in_dim"(%178) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %192 = stablehlo.xor %190, %191 : tensor<2xui32>
    %193 = stablehlo.xor %183, %166 : tensor<2xui32>
    %194 = "stablehlo.broadcast_in_dim"(%179) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<2xui32>
    %195 = stablehlo.xor %193, %194 : tensor<2xui32>
    %196 = "stablehlo.reshape"(%192) : (tensor<2xui32>) -> tensor<2x1xui32>
    %197 = "stablehlo.reshape"(%189) : (tensor<2xui32>) -> tensor<2x1xui32>
    %198 = "stablehlo.reshape"(%195) : (tensor<2xui32>) -> tensor<2x1xui32>
    %199 = "stablehlo.reshape"(%184) : (tensor<2xui32>) -> tensor<2x1xui32>
    %200 = "stablehlo.concatenate"(%196, %197, %198, %199) <{dimension = 1 : i64}> : (tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>, tensor<2x1xui32>) -> tensor<2x4xui32>
    %201 = "stablehlo.reshape"(%200) : (tensor<2x4xui32>) -> tensor<8xui32>
    %202 = "stablehlo.slice"(%201) <{start_indices = array<i64: 0>, limit_indices = array<i64: 6>, strides = array<i64: 1>}> : (tensor<8xui32>) -> tensor<6xui32>
    %203 = "stablehlo.fft"(%arg0) <{fft_length = array<i64: 3>, fft_type = #stablehlo<fft_type RFFT>}> : (tensor<3x3xf32>) -> tensor<3x2xcomplex<f32>>
    %204 = "stablehlo.cholesky"(%arg0) <{lower = true}> : (tensor<3x3xf32>) -> tensor<3x3xf32>
    %205 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<3xi32>
    %206 = "stablehlo.broadcast_in_dim"(%205) <{broadcast_dimensions = array<i64: 0>}> : (tensor<3xi32>) -> tensor<3x3xi32>
    %207 = "stablehlo.broadcast_in_dim"(%205) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xi32>) -> tensor<3x3xi32>
    %208 = "stablehlo.compare"(%206, %207) <{comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %209 = stablehlo.constant dense<0.0> : tensor<3x3xf32>
    %210 = "stablehlo.select"(%208, %204, %209) : (tensor<3x3xi1>, tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %211 = "stablehlo.triangular_solve"(%arg0, %arg0) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %212:2 = "stablehlo.custom_call"(%arg0) <{api_version = 1 : i32, backend_config = "", call_target_name = "Qr", has_side_effect = false}> : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xf32>)
    %213 = "stablehlo.custom_call"(%212#0, %212#1) <{api_version = 1 : i32, backend_config = "", call_target_name = "ProductOfElementaryHouseholderReflectors", has_side_effect = false}> : (tensor<3x3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
    %214:2 = "stablehlo.custom_call"(%arg0) <{api_version = 1 : i32, backend_config = "1,1,100,1e-6", call_target_name = "Eigh", has_side_effect = false}> : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xf32>)
    %215 = "stablehlo.optimization_barrier"(%arg0) : (tensor<3x3xf32>) -> tensor<3x3xf32>
    return %202, %203, %210, %211, %213, %214#1, %214#0, %215 : tensor<6xui32>, tensor<3x2xcomplex<f32>>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
  }
}
