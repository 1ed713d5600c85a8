func.func @region(%arg0: tensor<?x4xf64, #mp.rows<0, node>>, %arg1: tensor<?x4xf64, #mp.rows<0, edge>>, %arg2: tensor<5x4xf64>, %arg3: tensor<5xf64>) -> (tensor<?x5xf64, #mp.rows<0, node>>)
    attributes {mp.graphs = 1 : i64} {
  %0 = mp.gather src %arg0 : tensor<?x4xf64, #mp.rows<0, node>> -> tensor<?x4xf64, #mp.rows<0, edge>>
  %1 = arith.addf %0, %arg1 : tensor<?x4xf64, #mp.rows<0, edge>>
  %2 = mp.mailbox %1 : tensor<?x4xf64, #mp.rows<0, edge>> -> tensor<?x?x4xf64, #mp.rows<0, mailbox>>
  %3 = mp.transpose %arg2 [1, 0] : tensor<5x4xf64> -> tensor<4x5xf64>
  %4 = mp.linear %2, %3 : tensor<?x?x4xf64, #mp.rows<0, mailbox>>, tensor<4x5xf64> -> tensor<?x?x5xf64, #mp.rows<0, mailbox>>
  %5 = mp.broadcast %arg3 : tensor<5xf64> -> tensor<?x?x5xf64, #mp.rows<0, mailbox>>
  %6 = arith.addf %4, %5 : tensor<?x?x5xf64, #mp.rows<0, mailbox>>
  %7 = mp.fill 0.0 : f64 : tensor<?x?x5xf64, #mp.rows<0, mailbox>>
  %8 = arith.cmpf ole, %6, %7 : tensor<?x?x5xf64, #mp.rows<0, mailbox>>
  %9 = arith.select %8, %7, %6 : tensor<?x?x5xi1, #mp.rows<0, mailbox>>, tensor<?x?x5xf64, #mp.rows<0, mailbox>>
  %10 = mp.reduce_axis max %9 axis 1 : tensor<?x?x5xf64, #mp.rows<0, mailbox>> -> tensor<?x5xf64, #mp.rows<0, node>>
  %11 = mp.reduce_axis sum %6 axis 1 : tensor<?x?x5xf64, #mp.rows<0, mailbox>> -> tensor<?x5xf64, #mp.rows<0, node>>
  %12 = arith.addf %10, %11 : tensor<?x5xf64, #mp.rows<0, node>>
  %13 = mp.fill_isolated dst %12, 0.0 : f64 : tensor<?x5xf64, #mp.rows<0, node>> -> tensor<?x5xf64, #mp.rows<0, node>>
  return %13 : tensor<?x5xf64, #mp.rows<0, node>>
}
