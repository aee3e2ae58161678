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
  %v74 = insertelement <8 x i64> poison, i64 %v9, i64 0
  %v75 = shufflevector <8 x i64> %v74, <8 x i64> poison, <8 x i32> zeroinitializer
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
  %v16 = phi <8 x i1> [splat (i1 false), %loop11], [%v95, %loop.latch15]
  %v17 = phi i32 [0, %loop11], [%v94, %loop.latch15]
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
  %v39 = bitcast <8 x i1> %v24 to i8
  %v40 = icmp eq i8 %v39, -1
  br i1 %v40, label %fast41, label %slow42
fast41:
  %v44 = load float, ptr %v31, align 4
  %v45 = insertelement <8 x float> poison, float %v44, i64 0
  %v46 = getelementptr float, ptr %v31, i64 %v35
  %v47 = load float, ptr %v46, align 4
  %v48 = insertelement <8 x float> %v45, float %v47, i64 1
  %v49 = getelementptr float, ptr %v31, i64 %v36
  %v50 = load float, ptr %v49, align 4
  %v51 = insertelement <8 x float> %v48, float %v50, i64 2
  %v52 = getelementptr float, ptr %v31, i64 %v37
  %v53 = load float, ptr %v52, align 4
  %v54 = insertelement <8 x float> %v51, float %v53, i64 3
  %v55 = getelementptr float, ptr %v31, i64 %v38
  %v56 = load float, ptr %v55, align 4
  %v57 = insertelement <8 x float> %v54, float %v56, i64 4
  %v58 = getelementptr float, ptr %v55, i64 %v35
  %v59 = load float, ptr %v58, align 4
  %v60 = insertelement <8 x float> %v57, float %v59, i64 5
  %v61 = getelementptr float, ptr %v55, i64 %v36
  %v62 = load float, ptr %v61, align 4
  %v63 = insertelement <8 x float> %v60, float %v62, i64 6
  %v64 = getelementptr float, ptr %v55, i64 %v37
  %v65 = load float, ptr %v64, align 4
  %v66 = insertelement <8 x float> %v63, float %v65, i64 7
  br label %done43
slow42:
  %v67 = insertelement <8 x i32> poison, i32 %v1, i64 0
  %v68 = shufflevector <8 x i32> %v67, <8 x i32> poison, <8 x i32> zeroinitializer
  %v69 = add <8 x i32> %v68, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v70 = sext <8 x i32> %v69 to <8 x i64>
  %v71 = sext i32 %v17 to i64
  %v72 = insertelement <8 x i64> poison, i64 %v71, i64 0
  %v73 = shufflevector <8 x i64> %v72, <8 x i64> poison, <8 x i32> zeroinitializer
  %v76 = mul <8 x i64> %v70, %v75
  %v77 = add <8 x i64> %v76, %v73
  %v78 = mul <8 x i64> %v77, splat (i64 1)
  %v79 = getelementptr float, ptr %p0, <8 x i64> %v78
  %v80 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v79, <8 x i1> %v24, <8 x float> zeroinitializer)
  %v81 = freeze <8 x float> %v80
  br label %done43
done43:
  %v82 = phi <8 x float> [%v66, %fast41], [%v81, %slow42]
  %v83 = fcmp olt <8 x float> %v82, splat (float 0x0000000000000000)
  %v84 = and <8 x i1> %v24, %v83
  %v85 = bitcast <8 x i1> %v84 to i8
  %v86 = icmp eq i8 %v85, -1
  br i1 %v86, label %fast87, label %slow88
fast87:
  %v90 = insertelement <8 x i32> poison, i32 %v17, i64 0
  %v91 = shufflevector <8 x i32> %v90, <8 x i32> poison, <8 x i32> zeroinitializer
  store <8 x i32> %v91, ptr %v7, align 4
  br label %done89
slow88:
  %v92 = insertelement <8 x i32> poison, i32 %v17, i64 0
  %v93 = shufflevector <8 x i32> %v92, <8 x i32> poison, <8 x i32> zeroinitializer
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v93, ptr align 4 %v7, <8 x i1> %v84)
  br label %done89
done89:
  %v94 = add i32 %v17, 1
  %v95 = select <8 x i1> %v24, <8 x i1> %v83, <8 x i1> %v16
  br label %loop.latch15
loop.latch15:
  br label %loop.head12
loop.done14:
  br label %done5
slow4:
  %v96 = trunc i64 %left to i32
  %v97 = insertelement <8 x i32> poison, i32 %v96, i64 0
  %v98 = shufflevector <8 x i32> %v97, <8 x i32> poison, <8 x i32> zeroinitializer
  %v99 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v98
  %v100 = sext i32 %v1 to i64
  %v101 = getelementptr i32, ptr %p1, i64 %v100
  call void @llvm.masked.store.v8i32.p0(<8 x i32> splat (i32 -1), ptr align 4 %v101, <8 x i1> %v99)
  br label %loop102
loop102:
  br label %loop.head103
loop.head103:
  %v107 = phi <8 x i1> [splat (i1 false), %loop102], [%v140, %loop.latch106]
  %v108 = phi i32 [0, %loop102], [%v139, %loop.latch106]
  %v109 = phi <8 x i1> [%v99, %loop102], [%v115, %loop.latch106]
  %v110 = xor <8 x i1> %v107, splat (i1 true)
  %v111 = icmp slt i32 %v108, %v10
  %v112 = insertelement <8 x i1> poison, i1 %v111, i64 0
  %v113 = shufflevector <8 x i1> %v112, <8 x i1> poison, <8 x i32> zeroinitializer
  %v114 = and <8 x i1> %v110, %v113
  %v115 = and <8 x i1> %v109, %v114
  %v116 = bitcast <8 x i1> %v115 to i8
  %v117 = icmp ne i8 %v116, 0
  br i1 %v117, label %loop.body104, label %loop.done105
loop.body104:
  %v118 = sext i32 %v108 to i64
  %v119 = mul i64 %v100, %v9
  %v120 = add i64 %v119, %v118
  %v121 = mul i64 %v120, 1
  %v122 = getelementptr float, ptr %p0, i64 %v121
  %v123 = insertelement <8 x i32> poison, i32 %v1, i64 0
  %v124 = shufflevector <8 x i32> %v123, <8 x i32> poison, <8 x i32> zeroinitializer
  %v125 = add <8 x i32> %v124, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v126 = sext <8 x i32> %v125 to <8 x i64>
  %v127 = insertelement <8 x i64> poison, i64 %v118, i64 0
  %v128 = shufflevector <8 x i64> %v127, <8 x i64> poison, <8 x i32> zeroinitializer
  %v129 = mul <8 x i64> %v126, %v75
  %v130 = add <8 x i64> %v129, %v128
  %v131 = mul <8 x i64> %v130, splat (i64 1)
  %v132 = getelementptr float, ptr %p0, <8 x i64> %v131
  %v133 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v132, <8 x i1> %v115, <8 x float> zeroinitializer)
  %v134 = freeze <8 x float> %v133
  %v135 = fcmp olt <8 x float> %v134, splat (float 0x0000000000000000)
  %v136 = and <8 x i1> %v115, %v135
  %v137 = insertelement <8 x i32> poison, i32 %v108, i64 0
  %v138 = shufflevector <8 x i32> %v137, <8 x i32> poison, <8 x i32> zeroinitializer
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v138, ptr align 4 %v101, <8 x i1> %v136)
  %v139 = add i32 %v108, 1
  %v140 = select <8 x i1> %v115, <8 x i1> %v135, <8 x i1> %v107
  br label %loop.latch106
loop.latch106:
  br label %loop.head103
loop.done105:
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
