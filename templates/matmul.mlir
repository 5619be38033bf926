// A plain matrix product: C = A B, over blocks of the depth.
//
// A work item owns block_m rows of A, and one panel of columns of B and C. The panels take the place of
// heads. For row-major B [K, N] and C [M, N] the views are [1, N / columns, K, columns] and
// [1, N / columns, M, columns], with `columns` as the head's stride. For A the view is [1, N / columns, M, K],
// with 0 as the head's stride. So Sq = M, Sk = K and H = Hkv = N / columns.
tile.kernel @matmul<block_m, block_n, columns, input>(
    in %a: !tile.view<[B, H, Sq, Sk], input>, in %b: !tile.view<[B, Hkv, Sk, columns], input>,
    out %o: !tile.view<[B, H, Sq, columns], input>) {
  %rows = tile.work : !tile.block<query, block_m>
  %C0 = tile.constant 0.0 : !tile.tile<[block_m, columns], f32>
  %C = tile.blocks %depth, %partial of %rows : !tile.block<query, block_m> -> !tile.block<key, block_n>
      carry (%C1 = %C0 : !tile.tile<[block_m, columns], f32>) {
    %A = tile.load %a[%rows, %depth] : !tile.view<[B, H, Sq, Sk], input>[!tile.block<query, block_m>, !tile.block<key, block_n>] -> !tile.tile<[block_m, block_n], input>
    %B = tile.load %b[%depth] : !tile.view<[B, Hkv, Sk, columns], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, columns], input>
    %C2 = tile.dot %A, %B plus %C1 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_n, columns], input>, !tile.tile<[block_m, columns], f32>) -> !tile.tile<[block_m, columns], f32>
    tile.yield %C2 : !tile.tile<[block_m, columns], f32>
  }
  %Ci = tile.convert %C : !tile.tile<[block_m, columns], f32> -> !tile.tile<[block_m, columns], input>
  tile.store %Ci, %o[%rows] : !tile.tile<[block_m, columns], input>, !tile.view<[B, H, Sq, columns], input>[!tile.block<query, block_m>]
}
