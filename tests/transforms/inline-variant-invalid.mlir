// RUN: tesela-opt %s --verify-diagnostics --tile-inline-variant

// expected-error @+1 {{expected one attn.variant in the module, got 0}}
module {
  tile.kernel @k() {
  }
}
