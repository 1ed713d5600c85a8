func.func @region(%arg0: tensor<?x4xf64, #mp.rows<0, node>>, %arg1: tensor<4x4xf64>) -> (tensor<?x2x4xf64, #mp.rows<0, node>>)
    attributes {mp.graphs = 1 : i64} {
  %0 = mp.gather src %arg0 : tensor<?x4xf64, #mp.rows<0, node>> -> tensor<?x4xf64, #mp.rows<0, edge>>
  %1 = mp.gather dst %arg0 : tensor<?x4xf64, #mp.rows<0, node>> -> tensor<?x4xf64, #mp.rows<0, edge>>
  %2 = mp.concat %0, %1 axis 1 : tensor<?x4xf64, #mp.rows<0, edge>>, tensor<?x4xf64, #mp.rows<0, edge>> -> tensor<?x8xf64, #mp.rows<0, edge>>
  %3 = mp.reshape %arg1 : tensor<4x4xf64> -> tensor<8x2xf64>
  %4 = mp.linear %2, %3 : tensor<?x8xf64, #mp.rows<0, edge>>, tensor<8x2xf64> -> tensor<?x2xf64, #mp.rows<0, edge>>
  %5 = mp.fill 0.01 : f64 : tensor<?x2xf64, #mp.rows<0, edge>>
  %6 = mp.fill 0.0 : f64 : tensor<?x2xf64, #mp.rows<0, edge>>
  %7 = arith.cmpf ogt, %4, %6 : tensor<?x2xf64, #mp.rows<0, edge>>
  %8 = arith.mulf %4, %5 : tensor<?x2xf64, #mp.rows<0, edge>>
  %9 = arith.select %7, %4, %8 : tensor<?x2xi1, #mp.rows<0, edge>>, tensor<?x2xf64, #mp.rows<0, edge>>
  %10 = mp.mailbox %0 : tensor<?x4xf64, #mp.rows<0, edge>> -> tensor<?x?x4xf64, #mp.rows<0, mailbox>>
  %11 = mp.mailbox %9 : tensor<?x2xf64, #mp.rows<0, edge>> -> tensor<?x?x2xf64, #mp.rows<0, mailbox>>
  %12 = mp.softmax_axis %11 axis 1 : tensor<?x?x2xf64, #mp.rows<0, mailbox>>
  %13 = mp.reshape %12 : tensor<?x?x2xf64, #mp.rows<0, mailbox>> -> tensor<?x?x2x1xf64, #mp.rows<0, mailbox>>
  %14 = mp.reshape %10 : tensor<?x?x4xf64, #mp.rows<0, mailbox>> -> tensor<?x?x1x4xf64, #mp.rows<0, mailbox>>
  %15 = mp.broadcast %13 : tensor<?x?x2x1xf64, #mp.rows<0, mailbox>> -> tensor<?x?x2x4xf64, #mp.rows<0, mailbox>>
  %16 = mp.broadcast %14 : tensor<?x?x1x4xf64, #mp.rows<0, mailbox>> -> tensor<?x?x2x4xf64, #mp.rows<0, mailbox>>
  %17 = arith.mulf %15, %16 : tensor<?x?x2x4xf64, #mp.rows<0, mailbox>>
  %18 = mp.reduce_axis sum %17 axis 1 : tensor<?x?x2x4xf64, #mp.rows<0, mailbox>> -> tensor<?x2x4xf64, #mp.rows<0, node>>
  %19 = mp.fill_isolated dst %18, 0.0 : f64 : tensor<?x2x4xf64, #mp.rows<0, node>> -> tensor<?x2x4xf64, #mp.rows<0, node>>
  return %19 : tensor<?x2x4xf64, #mp.rows<0, node>>
}
