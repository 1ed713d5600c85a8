func.func @region(%arg0: tensor<?x4xf64, #mp.rows<0, node>>, %arg1: tensor<?x4xf64, #mp.rows<0, edge>>) -> (tensor<?x16xf64, #mp.rows<0, node>>)
    attributes {mp.graphs = 1 : i64} {
  %0 = mp.gather src %arg0 : tensor<?x4xf64, #mp.rows<0, node>> -> tensor<?x4xf64, #mp.rows<0, edge>>
  %1 = arith.addf %0, %arg1 : tensor<?x4xf64, #mp.rows<0, edge>>
  %2 = mp.mailbox %1 : tensor<?x4xf64, #mp.rows<0, edge>> -> tensor<?x?x4xf64, #mp.rows<0, mailbox>>
  %3 = mp.reduce_axis mean %2 axis 1 : tensor<?x?x4xf64, #mp.rows<0, mailbox>> -> tensor<?x4xf64, #mp.rows<0, node>>
  %4 = mp.reduce_axis max %2 axis 1 : tensor<?x?x4xf64, #mp.rows<0, mailbox>> -> tensor<?x4xf64, #mp.rows<0, node>>
  %5 = mp.reduce_axis min %2 axis 1 : tensor<?x?x4xf64, #mp.rows<0, mailbox>> -> tensor<?x4xf64, #mp.rows<0, node>>
  %6 = mp.reshape %3 : tensor<?x4xf64, #mp.rows<0, node>> -> tensor<?x1x4xf64, #mp.rows<0, node>>
  %7 = mp.broadcast %6 : tensor<?x1x4xf64, #mp.rows<0, node>> -> tensor<?x?x4xf64, #mp.rows<0, mailbox>>
  %8 = arith.subf %2, %7 : tensor<?x?x4xf64, #mp.rows<0, mailbox>>
  %9 = arith.mulf %8, %8 : tensor<?x?x4xf64, #mp.rows<0, mailbox>>
  %10 = mp.reduce_axis sum %9 axis 1 : tensor<?x?x4xf64, #mp.rows<0, mailbox>> -> tensor<?x4xf64, #mp.rows<0, node>>
  %11 = mp.degree dst : tensor<?xi64, #mp.rows<0, node>>
  %12 = arith.sitofp %11 : tensor<?xi64, #mp.rows<0, node>> to tensor<?xf64, #mp.rows<0, node>>
  %13 = mp.fill 0.0 : f64 : tensor<?xf64, #mp.rows<0, node>>
  %14 = arith.subf %12, %13 : tensor<?xf64, #mp.rows<0, node>>
  %15 = arith.maximumf %14, %13 : tensor<?xf64, #mp.rows<0, node>>
  %16 = mp.reshape %15 : tensor<?xf64, #mp.rows<0, node>> -> tensor<?x1xf64, #mp.rows<0, node>>
  %17 = mp.broadcast %16 : tensor<?x1xf64, #mp.rows<0, node>> -> tensor<?x4xf64, #mp.rows<0, node>>
  %18 = arith.divf %10, %17 : tensor<?x4xf64, #mp.rows<0, node>>
  %19 = mp.fill 0.0 : f64 : tensor<?x4xf64, #mp.rows<0, node>>
  %20 = arith.cmpf oeq, %18, %19 : tensor<?x4xf64, #mp.rows<0, node>>
  %21 = mp.fill 1.0 : f64 : tensor<?x4xf64, #mp.rows<0, node>>
  %22 = arith.select %20, %21, %18 : tensor<?x4xi1, #mp.rows<0, node>>, tensor<?x4xf64, #mp.rows<0, node>>
  %23 = math.sqrt %22 : tensor<?x4xf64, #mp.rows<0, node>>
  %24 = arith.select %20, %19, %23 : tensor<?x4xi1, #mp.rows<0, node>>, tensor<?x4xf64, #mp.rows<0, node>>
  %25 = mp.concat %3, %4, %5, %24 axis 1 : tensor<?x4xf64, #mp.rows<0, node>>, tensor<?x4xf64, #mp.rows<0, node>>, tensor<?x4xf64, #mp.rows<0, node>>, tensor<?x4xf64, #mp.rows<0, node>> -> tensor<?x16xf64, #mp.rows<0, node>>
  %26 = mp.fill 1.0 : f64 : tensor<f64>
  %27 = mp.broadcast %26 : tensor<f64> -> tensor<?xf64, #mp.rows<0, node>>
  %28 = arith.addf %27, %12 : tensor<?xf64, #mp.rows<0, node>>
  %29 = math.log %28 : tensor<?xf64, #mp.rows<0, node>>
  %30 = mp.reshape %29 : tensor<?xf64, #mp.rows<0, node>> -> tensor<?x1xf64, #mp.rows<0, node>>
  %31 = mp.broadcast %30 : tensor<?x1xf64, #mp.rows<0, node>> -> tensor<?x16xf64, #mp.rows<0, node>>
  %32 = arith.mulf %25, %31 : tensor<?x16xf64, #mp.rows<0, node>>
  %33 = mp.fill_isolated dst %32, 0.0 : f64 : tensor<?x16xf64, #mp.rows<0, node>> -> tensor<?x16xf64, #mp.rows<0, node>>
  return %33 : tensor<?x16xf64, #mp.rows<0, node>>
}
