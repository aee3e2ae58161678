define internal void @jwarp_first_negative.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v8 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v9 = load i64, ptr %v8, align 8, !invariant.load !0
  %v10 = trunc i64 %v9 to i32
  %v32 = mul i64 1, %v9
  %v33 = mul i64 %v32, 1
  %v34 = mul i64 %v33, 0
  %v35 = mul i64 %v33, 1
  %v36 = mul i64 %v33, 2
  %v37 = mul i64 %v33, 3
  %v38 = mul i64 %v33, 4
  %v40 = getelementptr inbounds i64, ptr %symbols, i64 4
  %v41 = load i64, ptr %v40, align 8, !invariant.load !0
  %v80 = insertelement <8 x i64> poison, i64 %v9, i64 0
  %v81 = shufflevector <8 x i64> %v80, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %row.start
row.start:
  %row = phi i64 [%row.begin, %entry], [%row.next, %row.latch]
  br label %col.head
col.head:
  %col = phi i64 [%col.begin, %row.start], [%col.next, %col.latch]
  %left = sub i64 %col.end, %col
  %col.more = icmp sge i64 %left, 1
  br i1 %col.more, label %col.body, label %row.latch
col.body:
  %v1 = trunc i64 %col to i32
  %v2 = icmp sge i64 %left, 8
  br i1 %v2, label %fast3, label %slow4
fast3:
  %v6 = sext i32 %v1 to i64
  %v7 = getelementptr i32, ptr %p1, i64 %v6
  store <8 x i32> splat (i32 -1), ptr %v7, align 4
  br label %loop11
loop11:
  br label %loop.head12
loop.head12:
  %v16 = phi <8 x i1> [splat (i1 false), %loop11], [%v101, %loop.latch15]
  %v17 = phi i32 [0, %loop11], [%v100, %loop.latch15]
  %v18 = phi <8 x i1> [splat (i1 true), %loop11], [%v24, %loop.latch15]
  %v19 = xor <8 x i1> %v16, splat (i1 true)
  %v20 = icmp slt i32 %v17, %v10
  %v21 = insertelement <8 x i1> poison, i1 %v20, i64 0
  %v22 = shufflevector <8 x i1> %v21, <8 x i1> poison, <8 x i32> zeroinitializer
  %v23 = and <8 x i1> %v19, %v22
  %v24 = and <8 x i1> %v18, %v23
  %v25 = bitcast <8 x i1> %v24 to i8
  %v26 = icmp ne i8 %v25, 0
  br i1 %v26, label %loop.body13, label %loop.done14
loop.body13:
  %v27 = sext i32 %v17 to i64
  %v28 = mul i64 %v6, %v9
  %v29 = add i64 %v28, %v27
  %v30 = mul i64 %v29, 1
  %v31 = getelementptr float, ptr %p0, i64 %v30
  %v39 = add i64 %v6, 7
  %v42 = icmp ult i64 %v6, %v41
  %v43 = icmp ult i64 %v39, %v41
  %v44 = and i1 %v42, %v43
  %v45 = icmp ult i64 %v27, %v9
  %v46 = and i1 %v44, %v45
  br i1 %v46, label %fast47, label %slow48
fast47:
  %v50 = load float, ptr %v31, align 4
  %v51 = insertelement <8 x float> poison, float %v50, i64 0
  %v52 = getelementptr float, ptr %v31, i64 %v35
  %v53 = load float, ptr %v52, align 4
  %v54 = insertelement <8 x float> %v51, float %v53, i64 1
  %v55 = getelementptr float, ptr %v31, i64 %v36
  %v56 = load float, ptr %v55, align 4
  %v57 = insertelement <8 x float> %v54, float %v56, i64 2
  %v58 = getelementptr float, ptr %v31, i64 %v37
  %v59 = load float, ptr %v58, align 4
  %v60 = insertelement <8 x float> %v57, float %v59, i64 3
  %v61 = getelementptr float, ptr %v31, i64 %v38
  %v62 = load float, ptr %v61, align 4
  %v63 = insertelement <8 x float> %v60, float %v62, i64 4
  %v64 = getelementptr float, ptr %v61, i64 %v35
  %v65 = load float, ptr %v64, align 4
  %v66 = insertelement <8 x float> %v63, float %v65, i64 5
  %v67 = getelementptr float, ptr %v61, i64 %v36
  %v68 = load float, ptr %v67, align 4
  %v69 = insertelement <8 x float> %v66, float %v68, i64 6
  %v70 = getelementptr float, ptr %v61, i64 %v37
  %v71 = load float, ptr %v70, align 4
  %v72 = insertelement <8 x float> %v69, float %v71, i64 7
  br label %done49
slow48:
  %v73 = insertelement <8 x i32> poison, i32 %v1, i64 0
  %v74 = shufflevector <8 x i32> %v73, <8 x i32> poison, <8 x i32> zeroinitializer
  %v75 = add <8 x i32> %v74, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v76 = sext <8 x i32> %v75 to <8 x i64>
  %v77 = sext i32 %v17 to i64
  %v78 = insertelement <8 x i64> poison, i64 %v77, i64 0
  %v79 = shufflevector <8 x i64> %v78, <8 x i64> poison, <8 x i32> zeroinitializer
  %v82 = mul <8 x i64> %v76, %v81
  %v83 = add <8 x i64> %v82, %v79
  %v84 = mul <8 x i64> %v83, splat (i64 1)
  %v85 = getelementptr float, ptr %p0, <8 x i64> %v84
  %v86 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v85, <8 x i1> %v24, <8 x float> zeroinitializer)
  %v87 = freeze <8 x float> %v86
  br label %done49
done49:
  %v88 = phi <8 x float> [%v72, %fast47], [%v87, %slow48]
  %v89 = fcmp olt <8 x float> %v88, splat (float 0x0000000000000000)
  %v90 = and <8 x i1> %v24, %v89
  %v91 = bitcast <8 x i1> %v90 to i8
  %v92 = icmp eq i8 %v91, -1
  br i1 %v92, label %fast93, label %slow94
fast93:
  %v96 = insertelement <8 x i32> poison, i32 %v17, i64 0
  %v97 = shufflevector <8 x i32> %v96, <8 x i32> poison, <8 x i32> zeroinitializer
  store <8 x i32> %v97, ptr %v7, align 4
  br label %done95
slow94:
  %v98 = insertelement <8 x i32> poison, i32 %v17, i64 0
  %v99 = shufflevector <8 x i32> %v98, <8 x i32> poison, <8 x i32> zeroinitializer
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v99, ptr align 4 %v7, <8 x i1> %v90)
  br label %done95
done95:
  %v100 = add i32 %v17, 1
  %v101 = select <8 x i1> %v24, <8 x i1> %v89, <8 x i1> %v16
  br label %loop.latch15
loop.latch15:
  br label %loop.head12
loop.done14:
  br label %done5
slow4:
  %v102 = trunc i64 %left to i32
  %v103 = insertelement <8 x i32> poison, i32 %v102, i64 0
  %v104 = shufflevector <8 x i32> %v103, <8 x i32> poison, <8 x i32> zeroinitializer
  %v105 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v104
  %v106 = sext i32 %v1 to i64
  %v107 = getelementptr i32, ptr %p1, i64 %v106
  call void @llvm.masked.store.v8i32.p0(<8 x i32> splat (i32 -1), ptr align 4 %v107, <8 x i1> %v105)
  br label %loop108
loop108:
  br label %loop.head109
loop.head109:
  %v113 = phi <8 x i1> [splat (i1 false), %loop108], [%v180, %loop.latch112]
  %v114 = phi i32 [0, %loop108], [%v179, %loop.latch112]
  %v115 = phi <8 x i1> [%v105, %loop108], [%v121, %loop.latch112]
  %v116 = xor <8 x i1> %v113, splat (i1 true)
  %v117 = icmp slt i32 %v114, %v10
  %v118 = insertelement <8 x i1> poison, i1 %v117, i64 0
  %v119 = shufflevector <8 x i1> %v118, <8 x i1> poison, <8 x i32> zeroinitializer
  %v120 = and <8 x i1> %v116, %v119
  %v121 = and <8 x i1> %v115, %v120
  %v122 = bitcast <8 x i1> %v121 to i8
  %v123 = icmp ne i8 %v122, 0
  br i1 %v123, label %loop.body110, label %loop.done111
loop.body110:
  %v124 = sext i32 %v114 to i64
  %v125 = mul i64 %v106, %v9
  %v126 = add i64 %v125, %v124
  %v127 = mul i64 %v126, 1
  %v128 = getelementptr float, ptr %p0, i64 %v127
  %v129 = add i64 %v106, 7
  %v130 = icmp ult i64 %v106, %v41
  %v131 = icmp ult i64 %v129, %v41
  %v132 = and i1 %v130, %v131
  %v133 = icmp ult i64 %v124, %v9
  %v134 = and i1 %v132, %v133
  br i1 %v134, label %fast135, label %slow136
fast135:
  %v138 = load float, ptr %v128, align 4
  %v139 = insertelement <8 x float> poison, float %v138, i64 0
  %v140 = getelementptr float, ptr %v128, i64 %v35
  %v141 = load float, ptr %v140, align 4
  %v142 = insertelement <8 x float> %v139, float %v141, i64 1
  %v143 = getelementptr float, ptr %v128, i64 %v36
  %v144 = load float, ptr %v143, align 4
  %v145 = insertelement <8 x float> %v142, float %v144, i64 2
  %v146 = getelementptr float, ptr %v128, i64 %v37
  %v147 = load float, ptr %v146, align 4
  %v148 = insertelement <8 x float> %v145, float %v147, i64 3
  %v149 = getelementptr float, ptr %v128, i64 %v38
  %v150 = load float, ptr %v149, align 4
  %v151 = insertelement <8 x float> %v148, float %v150, i64 4
  %v152 = getelementptr float, ptr %v149, i64 %v35
  %v153 = load float, ptr %v152, align 4
  %v154 = insertelement <8 x float> %v151, float %v153, i64 5
  %v155 = getelementptr float, ptr %v149, i64 %v36
  %v156 = load float, ptr %v155, align 4
  %v157 = insertelement <8 x float> %v154, float %v156, i64 6
  %v158 = getelementptr float, ptr %v149, i64 %v37
  %v159 = load float, ptr %v158, align 4
  %v160 = insertelement <8 x float> %v157, float %v159, i64 7
  br label %done137
slow136:
  %v161 = insertelement <8 x i32> poison, i32 %v1, i64 0
  %v162 = shufflevector <8 x i32> %v161, <8 x i32> poison, <8 x i32> zeroinitializer
  %v163 = add <8 x i32> %v162, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v164 = sext <8 x i32> %v163 to <8 x i64>
  %v165 = sext i32 %v114 to i64
  %v166 = insertelement <8 x i64> poison, i64 %v165, i64 0
  %v167 = shufflevector <8 x i64> %v166, <8 x i64> poison, <8 x i32> zeroinitializer
  %v168 = mul <8 x i64> %v164, %v81
  %v169 = add <8 x i64> %v168, %v167
  %v170 = mul <8 x i64> %v169, splat (i64 1)
  %v171 = getelementptr float, ptr %p0, <8 x i64> %v170
  %v172 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v171, <8 x i1> %v121, <8 x float> zeroinitializer)
  %v173 = freeze <8 x float> %v172
  br label %done137
done137:
  %v174 = phi <8 x float> [%v160, %fast135], [%v173, %slow136]
  %v175 = fcmp olt <8 x float> %v174, splat (float 0x0000000000000000)
  %v176 = and <8 x i1> %v121, %v175
  %v177 = insertelement <8 x i32> poison, i32 %v114, i64 0
  %v178 = shufflevector <8 x i32> %v177, <8 x i32> poison, <8 x i32> zeroinitializer
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v178, ptr align 4 %v107, <8 x i1> %v176)
  %v179 = add i32 %v114, 1
  %v180 = select <8 x i1> %v121, <8 x i1> %v175, <8 x i1> %v113
  br label %loop.latch112
loop.latch112:
  br label %loop.head109
loop.done111:
  br label %done5
done5:
  br label %col.latch
col.latch:
  %col.next = add i64 %col, 8
  br label %col.head
row.latch:
  %row.next = add i64 %row, 1
  %row.more = icmp slt i64 %row.next, %row.end
  br i1 %row.more, label %row.start, label %exit
exit:
  ret void
}
