// One case for each constraint of ops that deal query heads to work items.
// RUN: tesela-opt %s --split-input-file --verify-diagnostics

// Work items of queries have one query head each, or a pack of them.
tile.kernel @k() {
  // expected-error @+1 {{expected a block of keys, whose query heads are dealt to work items, got '!tile.block<query, 64>'; leave out `dealt to`}}
  %rows = tile.work dealt to 16 : !tile.block<query, 64>
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected 1 to 65536 workers, got 0}}
  %keys = tile.work dealt to 0 : !tile.block<key, 64>
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected `dealt to` before `joined`, got none: say among how many workers the joined parts were dealt}}
  %keys = tile.work joined : !tile.block<key, 64>
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected a block of keys, whose query heads are dealt to work items, got '!tile.block<query, 64>'}}
  %parts = tile.head_parts of 16 !tile.block<query, 64>
}

// -----

tile.kernel @k() {
  %keys = tile.work : !tile.block<key, 64>
  // expected-error @+1 {{expected the block of a tile.work `dealt to` workers, got a tile.work without parts}}
  %part = tile.work_part of %keys : !tile.block<key, 64>
}

// -----

tile.kernel @k(%first: i32) {
  %keys = tile.work dealt to 16 : !tile.block<key, 64>
  %others = tile.block %first of %keys : !tile.block<key, 64> -> !tile.block<key, 64>
  // expected-error @+1 {{expected the block of a tile.work `dealt to` workers, got another block}}
  %part = tile.work_part of %others : !tile.block<key, 64>
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected a block of keys, whose query heads are dealt to work items, got '!tile.block<query, 64>'; leave out `dealt to`}}
  %count = tile.work_items !tile.block<query, 64> dealt to 16
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected a block of keys with an order of keys, got '!tile.block<query, 64>'; leave out `order`}}
  %rows = tile.work order last_keys_first : !tile.block<query, 64>
}

// -----

tile.kernel @k() {
  %rows = tile.work : !tile.block<query, 64>
  // expected-error @+1 {{expected a block of keys, got '!tile.block<query, 64>'}}
  %at_end = tile.at_end of %rows : !tile.block<query, 64>
}
