func.func @region(%arg0: tensor<?x4xf64, #mp.rows<0, node>>, %arg1: tensor<?x4xf64, #mp.rows<0, edge>>) -> (tensor<?x8xf64, #mp.rows<0, node>>)
    attributes {mp.graphs = 1 : i64} {
  %0 = mp.gather src %arg0 : tensor<?x4xf64, #mp.rows<0, node>> -> tensor<?x4xf64, #mp.rows<0, edge>>
  %1 = arith.addf %0, %arg1 : tensor<?x4xf64, #mp.rows<0, edge>>
  %2 = mp.mailbox %1 : tensor<?x4xf64, #mp.rows<0, edge>> -> tensor<?x?x4xf64, #mp.rows<0, mailbox>>
  %3 = mp.reshape %arg0 : tensor<?x4xf64, #mp.rows<0, node>> -> tensor<?x1x4xf64, #mp.rows<0, node>>
  %4 = mp.broadcast %3 : tensor<?x1x4xf64, #mp.rows<0, node>> -> tensor<?x?x4xf64, #mp.rows<0, mailbox>>
  %5 = mp.concat %2, %4 axis 2 : tensor<?x?x4xf64, #mp.rows<0, mailbox>>, tensor<?x?x4xf64, #mp.rows<0, mailbox>> -> tensor<?x?x8xf64, #mp.rows<0, mailbox>>
  %6 = mp.reduce_axis sum %5 axis 1 : tensor<?x?x8xf64, #mp.rows<0, mailbox>> -> tensor<?x8xf64, #mp.rows<0, node>>
  %7 = mp.fill_isolated dst %6, 0.0 : f64 : tensor<?x8xf64, #mp.rows<0, node>> -> tensor<?x8xf64, #mp.rows<0, node>>
  return %7 : tensor<?x8xf64, #mp.rows<0, node>>
}
