// One case for each constraint of the tile dialect's types, of a kernel's arguments and of schedules.
// RUN: tesela-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expected a tile with one or two extents, got 3}}
tile.kernel @k(%x: !tile.tile<[1, 2, 3], f32>) {}

// -----

// expected-error @+1 {{expected a tile with positive extents, got the extent 0}}
tile.kernel @k(%x: !tile.tile<[0], f32>) {}

// -----

// expected-error @+1 {{expected a tile whose extents are known when the kernel is compiled; only views may have the extent '?'}}
tile.kernel @k(%x: !tile.tile<[?], f32>) {}

// -----

// expected-error @+1 {{expected a tile of floats, integers or a parameter's type, got 'index'}}
tile.kernel @k(%x: !tile.tile<[4], index>) {}

// -----

// expected-error @+1 {{expected a view of floats, integers or a parameter's type, got 'index'}}
tile.kernel @k(%x: !tile.view<[?], index>) {}

// -----

// expected-error @+1 {{expected the axis 'query' or 'key' of a block, got 'row'}}
tile.kernel @k(%x: !tile.block<row, 4>) {}

// -----

// expected-error @+1 {{expected a number of heads of at least 1 that is known when the kernel is compiled}}
tile.kernel @k(%x: !tile.block<query, 64, 0>) {}

// -----

// expected-error @+1 {{expected one head in a block of keys, got several}}
tile.kernel @k(%x: !tile.block<key, 64, 4>) {}

// -----

// expected-error @+1 {{expected the number of heads that share 48 rows to be a power of two that divides the number of rows, got 12}}
tile.kernel @k(%x: !tile.block<query, 48, 12>) {}

// -----

// expected-error @+1 {{expected an extent: a number, the name of a parameter or '?'}}
tile.kernel @k(%x: !tile.tile<[*], f32>) {}

// -----

// expected-error @+1 {{expected the role in, out, optional or workspace, got 'inout'}}
tile.kernel @k(inout %x: !tile.view<[B, H, Sq, 64], f32>) {}

// -----

// expected-error @+1 {{argument 'scale' has the role 'in', but only the kernel's own views have roles; remove the role from scalars}}
tile.kernel @k(in %scale: f32) {}

// -----

// expected-error @+1 {{argument '$t' has the role 'in', but only the kernel's own views have roles; remove the role from captured tensors}}
tile.kernel @k(in %$t: !tile.view<[B], f32>) {}

// -----

// expected-error @+1 {{argument 'x' has the extent 'batch', expected a parameter of the template or an extent of the launch (B, H, Hkv, Sq, Sk); list it among the parameters, or write '?' for any extent}}
tile.kernel @k<d>(in %x: !tile.view<[batch, H, Sq, d], f32>) {}

// -----

// expected-error @+1 {{argument 'x' has the extent 'rows'}}
tile.kernel @k(in %x: !tile.view<[B, H, (rows ceildiv 64) * 2, 64], f32>) {}

// -----

// expected-error @+1 {{the parameter "Sk" has the name of an extent of the launch (B, H, Hkv, Sq, Sk); rename it}}
tile.kernel @k<Sk>() {}

// -----

// expected-error @+1 {{argument 'o' is optional and has rank 4, expected rank 3: only a view with one number for each row may be optional}}
tile.kernel @k(optional %o: !tile.view<[B, H, Sq, 64], f32>) {}

// -----

// expected-error @+1 {{argument 'w' is a workspace with the extent '?', but its size must be known at the launch; use extents of the launch}}
tile.kernel @k(workspace %w: !tile.view<[B, H, ?, 64], f32>) {}

// -----

// expected-error @+1 {{argument 'w' is a workspace of 'bf16', expected f32 or i32}}
tile.kernel @k(workspace %w: !tile.view<[B, H, Sq, 64], bf16>) {}

// -----

// expected-error @+1 {{expected 'contiguous'}}
tile.kernel @k(in %x: !tile.view<[B, H, Sq], f32, dense>) {}

// -----

// expected-error @+1 {{'tile.kernel' op expected a role for each of 1 arguments, got 0; "" is none}}
"tile.kernel"() ({
^body(%x: f32):
  "tile.return"() : () -> ()
}) {sym_name = "k", parameters = [], argument_names = ["x"], argument_roles = []} : () -> ()

// -----

// expected-error @+1 {{'tile.kernel' op expected roles in, out, optional or workspace, got "inout"}}
"tile.kernel"() ({
^body(%x: f32):
  "tile.return"() : () -> ()
}) {sym_name = "k", parameters = [], argument_names = ["x"], argument_roles = ["inout"]} : () -> ()

// -----

// expected-error @+1 {{'tile.kernel' op expected a name for each of 1 arguments, got 0}}
"tile.kernel"() ({
^body(%x: f32):
  "tile.return"() : () -> ()
}) {sym_name = "k", parameters = [], argument_names = []} : () -> ()

// -----

// expected-error @+1 {{'tile.kernel' op two arguments are named "q"; rename one}}
"tile.kernel"() ({
^body(%x: f32, %y: f32):
  "tile.return"() : () -> ()
}) {sym_name = "k", parameters = [], argument_names = ["q", "q"]} : () -> ()

// -----

// expected-error @+1 {{expected an extent computed from two, such as 'd + 1'}}
tile.kernel @k() attributes {extent = #tile.extent<4>} {}

// -----

// expected-error@+1 {{'block_k' is not a field of a schedule; the fields are block_m, block_n, stages}}
tile.kernel @unknown_choice() attributes {schedule = #tile.schedule<block_m = 64, block_k = 16>} {
}

// -----

// expected-error@+1 {{stages must be a whole number from 1 to 4096, not '0'}}
tile.kernel @no_stage() attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 0>} {
}

// -----

// expected-error@+1 {{block_n is given twice; leave one out}}
tile.kernel @twice() attributes {schedule = #tile.schedule<block_n = 64, block_n = 16>} {
}

// -----

// expected-error@+1 {{expected a schedule with warps, got none; add it}}
tile.kernel @missing() attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 2>} {
}
