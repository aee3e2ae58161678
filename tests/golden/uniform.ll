define internal void @jwarp_uniform.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias %p2, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v19 = load i32, ptr %p0, align 4
  %v20 = icmp sgt i32 %v19, 3
  %v29 = sext i32 %v19 to i64
  %v30 = getelementptr float, ptr %p1, i64 %v29
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
  %v2 = call i64 @llvm.smin.i64(i64 %left, i64 8)
  %v3 = trunc i64 %v2 to i32
  %v4 = insertelement <8 x i32> poison, i32 %v3, i64 0
  %v5 = shufflevector <8 x i32> %v4, <8 x i32> poison, <8 x i32> zeroinitializer
  %v6 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v5
  %v7 = and i64 %fill, 4
  %v8 = icmp ne i64 %v7, 0
  br i1 %v8, label %fill9, label %filled10
fill9:
  %v11 = sext i32 %v1 to i64
  %v12 = bitcast <8 x i1> %v6 to i8
  %v13 = icmp eq i8 %v12, -1
  br i1 %v13, label %fast14, label %slow15
fast14:
  %v17 = getelementptr float, ptr %p2, i64 %v11
  store <8 x float> zeroinitializer, ptr %v17, align 4
  br label %done16
slow15:
  %v18 = getelementptr float, ptr %p2, i64 %v11
  call void @llvm.masked.store.v8f32.p0(<8 x float> zeroinitializer, ptr align 4 %v18, <8 x i1> %v6)
  br label %done16
done16:
  br label %filled10
filled10:
  br i1 %v20, label %then21, label %else22
then21:
  %v24 = bitcast <8 x i1> %v6 to i8
  %v25 = icmp eq i8 %v24, -1
  br i1 %v25, label %fast26, label %slow27
fast26:
  %v31 = load float, ptr %v30, align 4
  %v32 = insertelement <8 x float> poison, float %v31, i64 0
  %v33 = shufflevector <8 x float> %v32, <8 x float> poison, <8 x i32> zeroinitializer
  %v34 = sext i32 %v1 to i64
  %v35 = getelementptr float, ptr %p2, i64 %v34
  store <8 x float> %v33, ptr %v35, align 4
  br label %done28
slow27:
  %v36 = load float, ptr %v30, align 4
  %v37 = insertelement <8 x float> poison, float %v36, i64 0
  %v38 = shufflevector <8 x float> %v37, <8 x float> poison, <8 x i32> zeroinitializer
  %v39 = sext i32 %v1 to i64
  %v40 = getelementptr float, ptr %p2, i64 %v39
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v38, ptr align 4 %v40, <8 x i1> %v6)
  br label %done28
done28:
  br label %endif23
else22:
  %v41 = bitcast <8 x i1> %v6 to i8
  %v42 = icmp eq i8 %v41, -1
  br i1 %v42, label %fast43, label %slow44
fast43:
  br label %done45
slow44:
  br label %done45
done45:
  br label %endif23
endif23:
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
