func.func @region(%arg0: tensor<?x4xf64, #mp.rows<0, node>>, %arg1: tensor<?x4xf64, #mp.rows<0, edge>>, %arg2: tensor<?x1xf64, #mp.rows<0, edge>>) -> (tensor<?x4xf64, #mp.rows<0, node>>)
    attributes {mp.graphs = 1 : i64} {
  %0 = mp.gather src %arg0 : tensor<?x4xf64, #mp.rows<0, node>> -> tensor<?x4xf64, #mp.rows<0, edge>>
  %1 = arith.addf %0, %arg1 : tensor<?x4xf64, #mp.rows<0, edge>>
  %2 = mp.mailbox %1 : tensor<?x4xf64, #mp.rows<0, edge>> -> tensor<?x?x4xf64, #mp.rows<0, mailbox>>
  %3 = mp.mailbox %arg2 : tensor<?x1xf64, #mp.rows<0, edge>> -> tensor<?x?x1xf64, #mp.rows<0, mailbox>>
  %4 = mp.softmax_axis %3 axis 1 : tensor<?x?x1xf64, #mp.rows<0, mailbox>>
  %5 = mp.reshape %4 : tensor<?x?x1xf64, #mp.rows<0, mailbox>> -> tensor<?x?x1x1xf64, #mp.rows<0, mailbox>>
  %6 = mp.reshape %2 : tensor<?x?x4xf64, #mp.rows<0, mailbox>> -> tensor<?x?x1x4xf64, #mp.rows<0, mailbox>>
  %7 = mp.broadcast %5 : tensor<?x?x1x1xf64, #mp.rows<0, mailbox>> -> tensor<?x?x1x4xf64, #mp.rows<0, mailbox>>
  %8 = arith.mulf %7, %6 : tensor<?x?x1x4xf64, #mp.rows<0, mailbox>>
  %9 = mp.reduce_axis sum %8 axis 1 : tensor<?x?x1x4xf64, #mp.rows<0, mailbox>> -> tensor<?x1x4xf64, #mp.rows<0, node>>
  %10 = mp.reshape %9 : tensor<?x1x4xf64, #mp.rows<0, node>> -> tensor<?x4xf64, #mp.rows<0, node>>
  %11 = mp.fill_isolated dst %10, 0.0 : f64 : tensor<?x4xf64, #mp.rows<0, node>> -> tensor<?x4xf64, #mp.rows<0, node>>
  return %11 : tensor<?x4xf64, #mp.rows<0, node>>
}
