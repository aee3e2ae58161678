define internal void @jwarp_row_sums.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v7 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v8 = load i64, ptr %v7, align 8, !invariant.load !0
  %v9 = trunc i64 %v8 to i32
  %v10 = call i32 @llvm.smax.i32(i32 %v9, i32 3)
  %v11 = sub i32 %v10, 3
  %v33 = mul i64 1, %v8
  %v34 = mul i64 %v33, 1
  %v35 = mul i64 %v34, 0
  %v36 = mul i64 %v34, 1
  %v37 = mul i64 %v34, 2
  %v38 = mul i64 %v34, 3
  %v39 = mul i64 %v34, 4
  %v43 = getelementptr inbounds i64, ptr %symbols, i64 4
  %v44 = load i64, ptr %v43, align 8, !invariant.load !0
  %v88 = insertelement <8 x i64> poison, i64 %v8, i64 0
  %v89 = shufflevector <8 x i64> %v88, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %row.start
row.start:
  %row = phi i64 [%row.begin, %entry], [%row.next, %row.latch]
  br label %rest.head
rest.head:
  %rest.col = phi i64 [%col.begin, %row.start], [%rest.col.next, %rest.latch]
  %rest.left = sub i64 %col.end, %rest.col
  %rest.more = icmp sge i64 %rest.left, 1
  br i1 %rest.more, label %rest.body, label %row.latch
rest.body:
  %v1 = call i64 @llvm.smin.i64(i64 %rest.left, i64 8)
  %v2 = trunc i64 %v1 to i32
  %v3 = insertelement <8 x i32> poison, i32 %v2, i64 0
  %v4 = shufflevector <8 x i32> %v3, <8 x i32> poison, <8 x i32> zeroinitializer
  %v5 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v4
  %v6 = trunc i64 %rest.col to i32
  br label %loop12
loop12:
  br label %loop.head13
loop.head13:
  %i16 = phi i32 [0, %loop12], [%i17, %loop.latch19]
  %ok18.in = phi i1 [true, %loop12], [%ok18, %loop.latch19]
  %v20 = phi <8 x float> [splat (float 0x0000000000000000), %loop12], [%v123, %loop.latch19]
  %v21 = phi i32 [0, %loop12], [%v124, %loop.latch19]
  %v22 = icmp slt i32 %i16, %v11
  %v23 = and i1 %v22, %ok18.in
  br i1 %v23, label %loop.body14, label %loop.done15
loop.body14:
  %v24 = add i32 %i16, 1
  %v25 = add i32 %i16, 2
  %v26 = add i32 %i16, 3
  %v27 = sext i32 %v6 to i64
  %v28 = sext i32 %i16 to i64
  %v29 = mul i64 %v27, %v8
  %v30 = add i64 %v29, %v28
  %v31 = mul i64 %v30, 1
  %v32 = getelementptr float, ptr %p0, i64 %v31
  %v40 = add i64 %v28, 3
  %v41 = icmp ult i64 %v40, %v8
  %v42 = add i64 %v27, 7
  %v45 = icmp ult i64 %v27, %v44
  %v46 = icmp ult i64 %v42, %v44
  %v47 = and i1 %v45, %v46
  %v48 = icmp ult i64 %v28, %v8
  %v49 = and i1 %v47, %v48
  %v50 = and i1 %v49, %v41
  br i1 %v50, label %fast51, label %slow52
fast51:
  %v54 = load <4 x float>, ptr %v32, align 4
  %v55 = getelementptr float, ptr %v32, i64 %v39
  %v56 = load <4 x float>, ptr %v55, align 4
  %v57 = shufflevector <4 x float> %v54, <4 x float> %v56, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v58 = getelementptr float, ptr %v32, i64 %v36
  %v59 = load <4 x float>, ptr %v58, align 4
  %v60 = getelementptr float, ptr %v55, i64 %v36
  %v61 = load <4 x float>, ptr %v60, align 4
  %v62 = shufflevector <4 x float> %v59, <4 x float> %v61, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v63 = getelementptr float, ptr %v32, i64 %v37
  %v64 = load <4 x float>, ptr %v63, align 4
  %v65 = getelementptr float, ptr %v55, i64 %v37
  %v66 = load <4 x float>, ptr %v65, align 4
  %v67 = shufflevector <4 x float> %v64, <4 x float> %v66, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v68 = getelementptr float, ptr %v32, i64 %v38
  %v69 = load <4 x float>, ptr %v68, align 4
  %v70 = getelementptr float, ptr %v55, i64 %v38
  %v71 = load <4 x float>, ptr %v70, align 4
  %v72 = shufflevector <4 x float> %v69, <4 x float> %v71, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v73 = shufflevector <8 x float> %v57, <8 x float> %v62, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13>
  %v74 = shufflevector <8 x float> %v67, <8 x float> %v72, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13>
  %v75 = shufflevector <8 x float> %v57, <8 x float> %v62, <8 x i32> <i32 2, i32 10, i32 3, i32 11, i32 6, i32 14, i32 7, i32 15>
  %v76 = shufflevector <8 x float> %v67, <8 x float> %v72, <8 x i32> <i32 2, i32 10, i32 3, i32 11, i32 6, i32 14, i32 7, i32 15>
  %v77 = shufflevector <8 x float> %v73, <8 x float> %v74, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v78 = shufflevector <8 x float> %v73, <8 x float> %v74, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v79 = shufflevector <8 x float> %v75, <8 x float> %v76, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v80 = shufflevector <8 x float> %v75, <8 x float> %v76, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  br label %done53
slow52:
  %v81 = insertelement <8 x i32> poison, i32 %v6, i64 0
  %v82 = shufflevector <8 x i32> %v81, <8 x i32> poison, <8 x i32> zeroinitializer
  %v83 = add <8 x i32> %v82, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v84 = insertelement <8 x i32> poison, i32 %i16, i64 0
  %v85 = shufflevector <8 x i32> %v84, <8 x i32> poison, <8 x i32> zeroinitializer
  %v86 = sext <8 x i32> %v83 to <8 x i64>
  %v87 = sext <8 x i32> %v85 to <8 x i64>
  %v90 = mul <8 x i64> %v86, %v89
  %v91 = add <8 x i64> %v90, %v87
  %v92 = getelementptr float, ptr %p0, <8 x i64> %v91
  %v93 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v92, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v94 = freeze <8 x float> %v93
  %v95 = insertelement <8 x i32> poison, i32 %v24, i64 0
  %v96 = shufflevector <8 x i32> %v95, <8 x i32> poison, <8 x i32> zeroinitializer
  %v97 = sext <8 x i32> %v96 to <8 x i64>
  %v98 = add <8 x i64> %v90, %v97
  %v99 = getelementptr float, ptr %p0, <8 x i64> %v98
  %v100 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v99, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v101 = freeze <8 x float> %v100
  %v102 = insertelement <8 x i32> poison, i32 %v25, i64 0
  %v103 = shufflevector <8 x i32> %v102, <8 x i32> poison, <8 x i32> zeroinitializer
  %v104 = sext <8 x i32> %v103 to <8 x i64>
  %v105 = add <8 x i64> %v90, %v104
  %v106 = getelementptr float, ptr %p0, <8 x i64> %v105
  %v107 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v106, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v108 = freeze <8 x float> %v107
  %v109 = insertelement <8 x i32> poison, i32 %v26, i64 0
  %v110 = shufflevector <8 x i32> %v109, <8 x i32> poison, <8 x i32> zeroinitializer
  %v111 = sext <8 x i32> %v110 to <8 x i64>
  %v112 = add <8 x i64> %v90, %v111
  %v113 = getelementptr float, ptr %p0, <8 x i64> %v112
  %v114 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v113, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v115 = freeze <8 x float> %v114
  br label %done53
done53:
  %v116 = phi <8 x float> [%v77, %fast51], [%v94, %slow52]
  %v117 = phi <8 x float> [%v78, %fast51], [%v101, %slow52]
  %v118 = phi <8 x float> [%v79, %fast51], [%v108, %slow52]
  %v119 = phi <8 x float> [%v80, %fast51], [%v115, %slow52]
  %v120 = fadd contract <8 x float> %v20, %v116
  %v121 = fadd contract <8 x float> %v120, %v117
  %v122 = fadd contract <8 x float> %v121, %v118
  %v123 = fadd contract <8 x float> %v122, %v119
  %v124 = add i32 %i16, 4
  %i17 = add i32 %i16, 4
  %v125 = icmp sgt i32 %i17, %i16
  %ok18 = and i1 %v125, true
  br label %loop.latch19
loop.latch19:
  br label %loop.head13
loop.done15:
  %v126 = call i32 @llvm.smax.i32(i32 %v21, i32 0)
  br label %loop127
loop127:
  br label %loop.head128
loop.head128:
  %i131 = phi i32 [%v126, %loop127], [%i132, %loop.latch134]
  %v135 = phi <8 x float> [%v20, %loop127], [%v189, %loop.latch134]
  %v136 = icmp slt i32 %i131, %v9
  br i1 %v136, label %loop.body129, label %loop.done130
loop.body129:
  %v137 = sext i32 %v6 to i64
  %v138 = sext i32 %i131 to i64
  %v139 = mul i64 %v137, %v8
  %v140 = add i64 %v139, %v138
  %v141 = mul i64 %v140, 1
  %v142 = getelementptr float, ptr %p0, i64 %v141
  %v143 = add i64 %v137, 7
  %v144 = icmp ult i64 %v137, %v44
  %v145 = icmp ult i64 %v143, %v44
  %v146 = and i1 %v144, %v145
  %v147 = icmp ult i64 %v138, %v8
  %v148 = and i1 %v146, %v147
  br i1 %v148, label %fast149, label %slow150
fast149:
  %v152 = load float, ptr %v142, align 4
  %v153 = insertelement <8 x float> poison, float %v152, i64 0
  %v154 = getelementptr float, ptr %v142, i64 %v36
  %v155 = load float, ptr %v154, align 4
  %v156 = insertelement <8 x float> %v153, float %v155, i64 1
  %v157 = getelementptr float, ptr %v142, i64 %v37
  %v158 = load float, ptr %v157, align 4
  %v159 = insertelement <8 x float> %v156, float %v158, i64 2
  %v160 = getelementptr float, ptr %v142, i64 %v38
  %v161 = load float, ptr %v160, align 4
  %v162 = insertelement <8 x float> %v159, float %v161, i64 3
  %v163 = getelementptr float, ptr %v142, i64 %v39
  %v164 = load float, ptr %v163, align 4
  %v165 = insertelement <8 x float> %v162, float %v164, i64 4
  %v166 = getelementptr float, ptr %v163, i64 %v36
  %v167 = load float, ptr %v166, align 4
  %v168 = insertelement <8 x float> %v165, float %v167, i64 5
  %v169 = getelementptr float, ptr %v163, i64 %v37
  %v170 = load float, ptr %v169, align 4
  %v171 = insertelement <8 x float> %v168, float %v170, i64 6
  %v172 = getelementptr float, ptr %v163, i64 %v38
  %v173 = load float, ptr %v172, align 4
  %v174 = insertelement <8 x float> %v171, float %v173, i64 7
  br label %done151
slow150:
  %v175 = insertelement <8 x i32> poison, i32 %v6, i64 0
  %v176 = shufflevector <8 x i32> %v175, <8 x i32> poison, <8 x i32> zeroinitializer
  %v177 = add <8 x i32> %v176, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v178 = sext <8 x i32> %v177 to <8 x i64>
  %v179 = sext i32 %i131 to i64
  %v180 = insertelement <8 x i64> poison, i64 %v179, i64 0
  %v181 = shufflevector <8 x i64> %v180, <8 x i64> poison, <8 x i32> zeroinitializer
  %v182 = mul <8 x i64> %v178, %v89
  %v183 = add <8 x i64> %v182, %v181
  %v184 = mul <8 x i64> %v183, splat (i64 1)
  %v185 = getelementptr float, ptr %p0, <8 x i64> %v184
  %v186 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v185, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v187 = freeze <8 x float> %v186
  br label %done151
done151:
  %v188 = phi <8 x float> [%v174, %fast149], [%v187, %slow150]
  %v189 = fadd contract <8 x float> %v135, %v188
  %i132 = add i32 %i131, 1
  br label %loop.latch134
loop.latch134:
  br label %loop.head128
loop.done130:
  %v190 = sext i32 %v6 to i64
  %v191 = getelementptr float, ptr %p1, i64 %v190
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v135, ptr align 4 %v191, <8 x i1> %v5)
  br label %rest.latch
rest.latch:
  %rest.col.next = add i64 %rest.col, 8
  br label %rest.head
row.latch:
  %row.next = add i64 %row, 1
  %row.more = icmp slt i64 %row.next, %row.end
  br i1 %row.more, label %row.start, label %exit
exit:
  ret void
}
