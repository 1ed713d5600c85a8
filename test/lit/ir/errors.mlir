// RUN: gossamer-opt %s --verify-diagnostics --split-input-file

func.func @foreign_encoding(%x: tensor<?x4xf32, 3 : i32>) -> tensor<?x4xf32, 3 : i32> {
  // expected-error @below {{expects #mp.rows as encoding, but found 3 : i32}}
  %y = mp.reshape %x : tensor<?x4xf32, 3 : i32> -> tensor<?x4xf32, 3 : i32>
  return %y : tensor<?x4xf32, 3 : i32>
}

// -----

func.func @no_row_axis(%x: tensor<f32, #mp.rows<0, node>>) -> tensor<f32, #mp.rows<0, node>> {
  // expected-error @below {{expects a row axis in 'tensor<f32, #mp.rows<0, node>>'}}
  %y = mp.reshape %x : tensor<f32, #mp.rows<0, node>> -> tensor<f32, #mp.rows<0, node>>
  return %y : tensor<f32, #mp.rows<0, node>>
}

// -----

func.func @dynamic_features(%x: tensor<?x?xf32, #mp.rows<0, node>>) -> tensor<?x?xf32, #mp.rows<0, node>> {
  // expected-error @below {{expects static feature axes, but found 'tensor<?x?xf32, #mp.rows<0, node>>'}}
  %y = mp.reshape %x : tensor<?x?xf32, #mp.rows<0, node>> -> tensor<?x?xf32, #mp.rows<0, node>>
  return %y : tensor<?x?xf32, #mp.rows<0, node>>
}

// -----

func.func @static_rows(%x: tensor<7x4xf32, #mp.rows<0, node>>) -> tensor<7x4xf32, #mp.rows<0, node>> {
  // expected-error @below {{expects dynamic row axes, but found 'tensor<7x4xf32, #mp.rows<0, node>>'}}
  %y = mp.reshape %x : tensor<7x4xf32, #mp.rows<0, node>> -> tensor<7x4xf32, #mp.rows<0, node>>
  return %y : tensor<7x4xf32, #mp.rows<0, node>>
}

// -----

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
func.func @gather_width(%x: tensor<?x64xf32, #node>) -> tensor<?x32xf32, #edge> {
  // expected-error @below {{keeps the feature axes, but has 'tensor<?x64xf32, #mp.rows<0, node>>' and 'tensor<?x32xf32, #mp.rows<0, edge>>'}}
  %m = mp.gather src %x : tensor<?x64xf32, #node> -> tensor<?x32xf32, #edge>
  return %m : tensor<?x32xf32, #edge>
}

// -----

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
func.func @gather_type(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf64, #edge> {
  // expected-error @below {{keeps the element type, but has 'f32' and 'f64'}}
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf64, #edge>
  return %m : tensor<?x4xf64, #edge>
}

// -----

#node = #mp.rows<0, node>
func.func @gather_to_nodes(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  // expected-error @below {{expects edge rows, but found}}
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  return %m : tensor<?x4xf32, #node>
}

// -----

func.func @gather_from_another_graph(%x: tensor<?x4xf32, #mp.rows<1, node>>) -> tensor<?x4xf32, #mp.rows<0, edge>> {
  // expected-error @below {{expects node rows of the graph of the edges, but found 'tensor<?x4xf32, #mp.rows<1, node>>'}}
  %m = mp.gather src %x : tensor<?x4xf32, #mp.rows<1, node>> -> tensor<?x4xf32, #mp.rows<0, edge>>
  return %m : tensor<?x4xf32, #mp.rows<0, edge>>
}

// -----

func.func @gather_from_the_wrong_end(%x: tensor<?x4xf32, #mp.rows<0, dst>>) -> tensor<?x4xf32, #mp.rows<0, edge>> {
  // expected-error @below {{expects rows of kind node or src, but found dst}}
  %m = mp.gather src %x : tensor<?x4xf32, #mp.rows<0, dst>> -> tensor<?x4xf32, #mp.rows<0, edge>>
  return %m : tensor<?x4xf32, #mp.rows<0, edge>>
}

// -----

func.func @reduce_to_the_wrong_end(%m: tensor<?x4xf32, #mp.rows<0, edge>>) -> tensor<?x4xf32, #mp.rows<0, src>> {
  // expected-error @below {{expects rows of kind node or dst, but found src}}
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #mp.rows<0, edge>> -> tensor<?x4xf32, #mp.rows<0, src>>
  return %s : tensor<?x4xf32, #mp.rows<0, src>>
}

// -----

#node = #mp.rows<0, node>
func.func @softmax_over_nodes(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  // expected-error @below {{expects edge rows, but found}}
  %s = mp.softmax dst %x : tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

#node = #mp.rows<0, node>
func.func @mailbox_of_nodes(%x: tensor<?x4xf32, #node>) -> tensor<?x?x4xf32, #mp.rows<0, mailbox>> {
  // expected-error @below {{turns edge rows into the mailbox of the same graph, but has}}
  %b = mp.mailbox %x : tensor<?x4xf32, #node> -> tensor<?x?x4xf32, #mp.rows<0, mailbox>>
  return %b : tensor<?x?x4xf32, #mp.rows<0, mailbox>>
}

// -----

func.func @degree_of_edges() -> tensor<?xi64, #mp.rows<0, edge>> {
  // expected-error @below {{expects node rows, but found}}
  %d = mp.degree dst : tensor<?xi64, #mp.rows<0, edge>>
  return %d : tensor<?xi64, #mp.rows<0, edge>>
}

// -----

func.func @degree_per_feature() -> tensor<?x4xi64, #mp.rows<0, node>> {
  // expected-error @below {{has one number per node, but found}}
  %d = mp.degree dst : tensor<?x4xi64, #mp.rows<0, node>>
  return %d : tensor<?x4xi64, #mp.rows<0, node>>
}

// -----

func.func @degree_of_the_wrong_end() -> tensor<?xi64, #mp.rows<0, src>> {
  // expected-error @below {{counts edges whose dst is a row, but has rows of kind src}}
  %d = mp.degree dst : tensor<?xi64, #mp.rows<0, src>>
  return %d : tensor<?xi64, #mp.rows<0, src>>
}

// -----

#node = #mp.rows<0, node>
func.func @fill_isolated_type(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  // expected-error @below {{fills with 'f64' a table of 'f32'}}
  %f = mp.fill_isolated dst %x, 0.0 : f64 : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  return %f : tensor<?x4xf32, #node>
}

// -----

#node = #mp.rows<0, node>
func.func @fill_isolated_shape(%x: tensor<?x4xf32, #node>) -> tensor<?x8xf32, #node> {
  // expected-error @below {{keeps the type, but has}}
  %f = mp.fill_isolated dst %x, 0.0 : f32 : tensor<?x4xf32, #node> -> tensor<?x8xf32, #node>
  return %f : tensor<?x8xf32, #node>
}

// -----

#edge = #mp.rows<0, edge>
func.func @fill_isolated_edges(%x: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #edge> {
  // expected-error @below {{expects node rows, but found}}
  %f = mp.fill_isolated dst %x, 0.0 : f32 : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #edge>
  return %f : tensor<?x4xf32, #edge>
}

// -----

func.func @prefix_of_a_parameter(%x: tensor<4xf32>) -> tensor<?x4xf32, #mp.rows<0, dst>> {
  // expected-error @below {{expects tables with rows, but has}}
  %p = mp.prefix %x : tensor<4xf32> -> tensor<?x4xf32, #mp.rows<0, dst>>
  return %p : tensor<?x4xf32, #mp.rows<0, dst>>
}

// -----

func.func @fill_type() -> tensor<4xf32> {
  // expected-error @below {{fills with 'i64' a table of 'f32'}}
  %f = mp.fill 1 : i64 : tensor<4xf32>
  return %f : tensor<4xf32>
}

// -----

#node = #mp.rows<0, node>
func.func @broadcast_of_a_wide_axis(%x: tensor<?x2xf32, #node>) -> tensor<?x4xf32, #node> {
  // expected-error @below {{repeats axes of size 1 only, but has}}
  %b = mp.broadcast %x : tensor<?x2xf32, #node> -> tensor<?x4xf32, #node>
  return %b : tensor<?x4xf32, #node>
}

// -----

#node = #mp.rows<0, node>
func.func @broadcast_of_rank(%x: tensor<?x4xf32, #node>) -> tensor<?x2x4xf32, #node> {
  // expected-error @below {{cannot repeat}}
  %b = mp.broadcast %x : tensor<?x4xf32, #node> -> tensor<?x2x4xf32, #node>
  return %b : tensor<?x2x4xf32, #node>
}

// -----

func.func @broadcast_to_other_rows(%x: tensor<?x4xf32, #mp.rows<0, node>>) -> tensor<?x4xf32, #mp.rows<0, edge>> {
  // expected-error @below {{keeps the rows, but has}}
  %b = mp.broadcast %x : tensor<?x4xf32, #mp.rows<0, node>> -> tensor<?x4xf32, #mp.rows<0, edge>>
  return %b : tensor<?x4xf32, #mp.rows<0, edge>>
}

// -----

func.func @broadcast_into_mailbox(%x: tensor<?x4xf32, #mp.rows<0, node>>) -> tensor<?x?x4xf32, #mp.rows<0, mailbox>> {
  // expected-error @below {{expects axis 1 of size 1 where the messages come, but found}}
  %b = mp.broadcast %x : tensor<?x4xf32, #mp.rows<0, node>> -> tensor<?x?x4xf32, #mp.rows<0, mailbox>>
  return %b : tensor<?x?x4xf32, #mp.rows<0, mailbox>>
}

// -----

func.func @reshape_size(%x: tensor<4xf32>) -> tensor<2x3xf32> {
  // expected-error @below {{keeps the number of features, but has 4 and 6}}
  %r = mp.reshape %x : tensor<4xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

func.func @transpose_twice_the_same(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{expects a permutation of all 2 axes}}
  %r = mp.transpose %x [1, 1] : tensor<4x4xf32> -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

#node = #mp.rows<0, node>
func.func @transpose_rows(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  // expected-error @below {{keeps row axes in place}}
  %r = mp.transpose %x [1, 0] : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  return %r : tensor<?x4xf32, #node>
}

// -----

func.func @transpose_shape(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // expected-error @below {{expects axis 0 of size 4, but found 2}}
  %r = mp.transpose %x [1, 0] : tensor<2x4xf32> -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// -----

#node = #mp.rows<0, node>
func.func @slice_of_rows(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  // expected-error @below {{expects an axis from 1 to 1, but found 0}}
  %r = mp.slice %x axis 0 from 0 by 1 : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  return %r : tensor<?x4xf32, #node>
}

// -----

func.func @slice_past_the_end(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @below {{reads past the end of axis 0 of size 8}}
  %r = mp.slice %x axis 0 from 2 by 2 : tensor<8xf32> -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @slice_of_another_axis(%x: tensor<8x4xf32>) -> tensor<2x2xf32> {
  // expected-error @below {{keeps axis 1, but has 4 and 2}}
  %r = mp.slice %x axis 0 from 0 by 1 : tensor<8x4xf32> -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// -----

func.func @slice_rank(%x: tensor<8x4xf32>) -> tensor<2xf32> {
  // expected-error @below {{keeps the number of axes, but has 2 and 1}}
  %r = mp.slice %x axis 0 from 0 by 1 : tensor<8x4xf32> -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @concat_size(%x: tensor<4xf32>) -> tensor<9xf32> {
  // expected-error @below {{expects 8 along axis 0, but found 9}}
  %r = mp.concat %x, %x axis 0 : tensor<4xf32>, tensor<4xf32> -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

func.func @concat_rank(%x: tensor<4xf32>) -> tensor<4x1xf32> {
  // expected-error @below {{keeps the number of axes, but has}}
  %r = mp.concat %x axis 0 : tensor<4xf32> -> tensor<4x1xf32>
  return %r : tensor<4x1xf32>
}

// -----

func.func @concat_of_another_axis(%x: tensor<4x2xf32>) -> tensor<4x3xf32> {
  // expected-error @below {{keeps axis 1, but has}}
  %r = mp.concat %x axis 0 : tensor<4x2xf32> -> tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}

// -----

func.func @concat_of_nothing() -> tensor<0xf32> {
  // expected-error @below {{expects at least one table}}
  %r = "mp.concat"() {axis = 0 : i64} : () -> tensor<0xf32>
  return %r : tensor<0xf32>
}

// -----

#node = #mp.rows<0, node>
func.func @reduce_axis_shape(%x: tensor<?x4x2xf32, #node>) -> tensor<?x4xf32, #node> {
  // expected-error @below {{drops axis 1, but has}}
  %r = mp.reduce_axis sum %x axis 1 : tensor<?x4x2xf32, #node> -> tensor<?x4xf32, #node>
  return %r : tensor<?x4xf32, #node>
}

// -----

func.func @reduce_messages_to_sources(%x: tensor<?x?x2xf32, #mp.rows<0, mailbox>>) -> tensor<?x2xf32, #mp.rows<0, src>> {
  // expected-error @below {{turns a mailbox into rows of its destinations, but found}}
  %r = mp.reduce_axis sum %x axis 1 : tensor<?x?x2xf32, #mp.rows<0, mailbox>> -> tensor<?x2xf32, #mp.rows<0, src>>
  return %r : tensor<?x2xf32, #mp.rows<0, src>>
}

// -----

#node = #mp.rows<0, node>
func.func @softmax_over_rows(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  // expected-error @below {{expects an axis from 1 to 1, but found 0}}
  %r = mp.softmax_axis %x axis 0 : tensor<?x4xf32, #node>
  return %r : tensor<?x4xf32, #node>
}

// -----

#node = #mp.rows<0, node>
func.func @linear_weight(%x: tensor<?x4xf32, #node>, %w: tensor<4xf32>) -> tensor<?x4xf32, #node> {
  // expected-error @below {{expects a matrix without rows as weight, but found 'tensor<4xf32>'}}
  %r = mp.linear %x, %w : tensor<?x4xf32, #node>, tensor<4xf32> -> tensor<?x4xf32, #node>
  return %r : tensor<?x4xf32, #node>
}

// -----

#node = #mp.rows<0, node>
func.func @linear_width(%x: tensor<?x4xf32, #node>, %w: tensor<8x2xf32>) -> tensor<?x2xf32, #node> {
  // expected-error @below {{expects 8 features, but found}}
  %r = mp.linear %x, %w : tensor<?x4xf32, #node>, tensor<8x2xf32> -> tensor<?x2xf32, #node>
  return %r : tensor<?x2xf32, #node>
}

// -----

#node = #mp.rows<0, node>
func.func @linear_result(%x: tensor<?x4xf32, #node>, %w: tensor<4x2xf32>) -> tensor<?x3xf32, #node> {
  // expected-error @below {{expects 2 features in the result, but found}}
  %r = mp.linear %x, %w : tensor<?x4xf32, #node>, tensor<4x2xf32> -> tensor<?x3xf32, #node>
  return %r : tensor<?x3xf32, #node>
}

// -----

func.func @pad_parameter(%m: tensor<3x4xf32>) -> tensor<?x4xf32, #mp.rows<0, src>> {
  // expected-error @below {{expects tables with rows, but has}}
  %r = mp.pad_rows %m : tensor<3x4xf32> -> tensor<?x4xf32, #mp.rows<0, src>>
  return %r : tensor<?x4xf32, #mp.rows<0, src>>
}

// -----

func.func @sum_edges(%m: tensor<?x4xf32, #mp.rows<0, edge>>) -> tensor<4xf32> {
  // expected-error @below {{turns a table of nodes into one row, but has}}
  %r = mp.sum_rows %m : tensor<?x4xf32, #mp.rows<0, edge>> -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

#node = #mp.rows<0, node>
func.func @contract_features(%x: tensor<?x2x4xf32, #node>, %g: tensor<?x3xf32, #node>) -> tensor<4x3xf32> {
  // expected-error @below {{expects rows that differ in the last axis only, but has}}
  %r = mp.contract_rows %x, %g : tensor<?x2x4xf32, #node>, tensor<?x3xf32, #node> -> tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}

// -----

#node = #mp.rows<0, node>
func.func @contract_result(%x: tensor<?x4xf32, #node>, %g: tensor<?x3xf32, #node>) -> tensor<3x4xf32> {
  // expected-error @below {{expects a matrix of 4 by 3, but found}}
  %r = mp.contract_rows %x, %g : tensor<?x4xf32, #node>, tensor<?x3xf32, #node> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @iota_type() -> tensor<4xi32> {
  // expected-error @below {{counts in i64, or edges in i32, but has 'tensor<4xi32>'}}
  %r = mp.iota axis 0 : tensor<4xi32>
  return %r : tensor<4xi32>
}

// -----

func.func @iota_axis() -> tensor<?x4xi64, #mp.rows<0, edge>> {
  // expected-error @below {{counts rows, or along one axis of a table without rows, but has axis 0 of}}
  %r = mp.iota axis 0 : tensor<?x4xi64, #mp.rows<0, edge>>
  return %r : tensor<?x4xi64, #mp.rows<0, edge>>
}

// -----

func.func @random_integers(%seed: tensor<i64>) -> tensor<?xi64, #mp.rows<0, edge>> {
  // expected-error @below {{draws f32 or f64, but has 'tensor<?xi64, #mp.rows<0, edge>>'}}
  %u = mp.uniform %seed stream 0 : tensor<?xi64, #mp.rows<0, edge>>
  return %u : tensor<?xi64, #mp.rows<0, edge>>
}

// -----

func.func @random_mailbox(%seed: tensor<i64>) -> tensor<?x?xf32, #mp.rows<0, mailbox>> {
  // expected-error @below {{draws rows of edges or nodes, but has 'tensor<?x?xf32, #mp.rows<0, mailbox>>'; draw on edges, and make a mailbox of them}}
  %u = mp.uniform %seed stream 0 : tensor<?x?xf32, #mp.rows<0, mailbox>>
  return %u : tensor<?x?xf32, #mp.rows<0, mailbox>>
}

// -----

func.func @several_seeds(%seed: tensor<2xi64>) -> tensor<?xf32, #mp.rows<0, edge>> {
  // expected-note @above {{prior use here}}
  // expected-error @below {{expects different type than prior uses: 'tensor<i64>' vs 'tensor<2xi64>'}}
  %u = mp.uniform %seed stream 0 : tensor<?xf32, #mp.rows<0, edge>>
  return %u : tensor<?xf32, #mp.rows<0, edge>>
}

// -----

func.func @sum_in_bf16(%m: tensor<?x4xbf16, #mp.rows<0, edge>>) -> tensor<?x4xbf16, #mp.rows<0, node>> {
  // expected-error @below {{does not compute in 'bf16'; widen its operands with arith.extf}}
  %h = mp.reduce sum dst %m : tensor<?x4xbf16, #mp.rows<0, edge>> -> tensor<?x4xbf16, #mp.rows<0, node>>
  return %h : tensor<?x4xbf16, #mp.rows<0, node>>
}

// -----

func.func @softmax_in_f16(%m: tensor<?x4xf16, #mp.rows<0, edge>>) -> tensor<?x4xf16, #mp.rows<0, edge>> {
  // expected-error @below {{does not compute in 'f16'}}
  %h = mp.softmax dst %m : tensor<?x4xf16, #mp.rows<0, edge>>
  return %h : tensor<?x4xf16, #mp.rows<0, edge>>
}

// -----

func.func @axis_in_f16(%m: tensor<?x4xf16, #mp.rows<0, edge>>) -> tensor<?xf16, #mp.rows<0, edge>> {
  // expected-error @below {{does not compute in 'f16'}}
  %h = mp.reduce_axis sum %m axis 1 : tensor<?x4xf16, #mp.rows<0, edge>> -> tensor<?xf16, #mp.rows<0, edge>>
  return %h : tensor<?xf16, #mp.rows<0, edge>>
}

// -----

func.func @softmax_axis_in_bf16(%m: tensor<?x4xbf16, #mp.rows<0, edge>>) -> tensor<?x4xbf16, #mp.rows<0, edge>> {
  // expected-error @below {{does not compute in 'bf16'}}
  %h = mp.softmax_axis %m axis 1 : tensor<?x4xbf16, #mp.rows<0, edge>>
  return %h : tensor<?x4xbf16, #mp.rows<0, edge>>
}

// -----

func.func @sum_into_bf16(%m: tensor<?x4xbf16, #mp.rows<0, node>>) -> tensor<4xbf16> {
  // expected-error @below {{sums in f32, but has 'tensor<4xbf16>'}}
  %h = mp.sum_rows %m : tensor<?x4xbf16, #mp.rows<0, node>> -> tensor<4xbf16>
  return %h : tensor<4xbf16>
}

// -----

func.func @contract_into_f16(%m: tensor<?x4xf16, #mp.rows<0, node>>) -> tensor<4x4xf16> {
  // expected-error @below {{sums in f32}}
  %h = mp.contract_rows %m, %m : tensor<?x4xf16, #mp.rows<0, node>>, tensor<?x4xf16, #mp.rows<0, node>> -> tensor<4x4xf16>
  return %h : tensor<4x4xf16>
}

// -----

func.func @lookup_without_rows(%t: tensor<8x4xf32>, %i: tensor<3xi64>) -> tensor<3x4xf32> {
  // expected-error @below {{expects one number of i32 or i64 per row, but found 'tensor<3xi64>'}}
  %r = mp.lookup %t at %i : tensor<8x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

#edge = #mp.rows<0, edge>
func.func @lookup_by_float(%t: tensor<8x4xf32>, %i: tensor<?xf32, #edge>) -> tensor<?x4xf32, #edge> {
  // expected-error @below {{expects one number of i32 or i64 per row, but found}}
  %r = mp.lookup %t at %i : tensor<8x4xf32>, tensor<?xf32, #edge> -> tensor<?x4xf32, #edge>
  return %r : tensor<?x4xf32, #edge>
}

// -----

#edge = #mp.rows<0, edge>
func.func @lookup_of_rows(%t: tensor<?x4xf32, #edge>, %i: tensor<?xi64, #edge>) -> tensor<?xf32, #edge> {
  // expected-error @below {{expects a table without rows of at least one axis, but found}}
  %r = mp.lookup %t at %i : tensor<?x4xf32, #edge>, tensor<?xi64, #edge> -> tensor<?xf32, #edge>
  return %r : tensor<?xf32, #edge>
}

// -----

#edge = #mp.rows<0, edge>
func.func @lookup_of_other_rows(%t: tensor<8x4xf32>, %i: tensor<?xi64, #edge>) -> tensor<?x5xf32, #edge> {
  // expected-error @below {{expects rows of 'tensor<8x4xf32>', but found}}
  %r = mp.lookup %t at %i : tensor<8x4xf32>, tensor<?xi64, #edge> -> tensor<?x5xf32, #edge>
  return %r : tensor<?x5xf32, #edge>
}

// -----

#edge = #mp.rows<0, edge>
func.func @lookup_on_other_rows(%t: tensor<8x4xf32>, %i: tensor<?xi64, #edge>) -> tensor<?x4xf32, #mp.rows<0, node>> {
  // expected-error @below {{keeps the rows, but has}}
  %r = mp.lookup %t at %i : tensor<8x4xf32>, tensor<?xi64, #edge> -> tensor<?x4xf32, #mp.rows<0, node>>
  return %r : tensor<?x4xf32, #mp.rows<0, node>>
}

// -----

#edge = #mp.rows<0, edge>
func.func @lookup_of_another_type(%t: tensor<8x4xf32>, %i: tensor<?xi64, #edge>) -> tensor<?x4xf64, #edge> {
  // expected-error @below {{keeps the element type, but has 'f32' and 'f64'}}
  %r = mp.lookup %t at %i : tensor<8x4xf32>, tensor<?xi64, #edge> -> tensor<?x4xf64, #edge>
  return %r : tensor<?x4xf64, #edge>
}

// -----

#edge = #mp.rows<0, edge>
func.func @sum_by_in_bf16(%m: tensor<?x4xbf16, #edge>, %i: tensor<?xi64, #edge>) -> tensor<8x4xbf16> {
  // expected-error @below {{does not compute in 'bf16'; widen its operands with arith.extf}}
  %r = mp.sum_by %m at %i : tensor<?x4xbf16, #edge>, tensor<?xi64, #edge> -> tensor<8x4xbf16>
  return %r : tensor<8x4xbf16>
}

// -----

#edge = #mp.rows<0, edge>
func.func @sum_by_of_other_rows(%m: tensor<?x4xf32, #edge>, %i: tensor<?xi64, #edge>) -> tensor<8x5xf32> {
  // expected-error @below {{expects rows of 'tensor<8x5xf32>', but found}}
  %r = mp.sum_by %m at %i : tensor<?x4xf32, #edge>, tensor<?xi64, #edge> -> tensor<8x5xf32>
  return %r : tensor<8x5xf32>
}
