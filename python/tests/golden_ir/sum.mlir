func.func @region(%arg0: tensor<?x4xf64, #mp.rows<0, node>>, %arg1: tensor<?x4xf64, #mp.rows<0, edge>>) -> (tensor<?x4xf64, #mp.rows<0, node>>)
    attributes {mp.graphs = 1 : i64} {
  %0 = mp.gather src %arg0 : tensor<?x4xf64, #mp.rows<0, node>> -> tensor<?x4xf64, #mp.rows<0, edge>>
  %1 = arith.addf %0, %arg1 : tensor<?x4xf64, #mp.rows<0, edge>>
  %2 = mp.mailbox %1 : tensor<?x4xf64, #mp.rows<0, edge>> -> tensor<?x?x4xf64, #mp.rows<0, mailbox>>
  %3 = mp.reduce_axis sum %2 axis 1 : tensor<?x?x4xf64, #mp.rows<0, mailbox>> -> tensor<?x4xf64, #mp.rows<0, node>>
  %4 = mp.reduce_axis mean %2 axis 1 : tensor<?x?x4xf64, #mp.rows<0, mailbox>> -> tensor<?x4xf64, #mp.rows<0, node>>
  %5 = arith.addf %3, %4 : tensor<?x4xf64, #mp.rows<0, node>>
  %6 = mp.fill_isolated dst %5, 0.0 : f64 : tensor<?x4xf64, #mp.rows<0, node>> -> tensor<?x4xf64, #mp.rows<0, node>>
  return %6 : tensor<?x4xf64, #mp.rows<0, node>>
}
