/* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Attention on tensors of another library, given by DLPack. A Python module can pass the tensors of
 * its capsules to it. dlpack.h is not needed, but may be included. */
#include <string.h>
#include <tesela/tesela.h>

/* q, k, v, o [batch, heads, length, head_dim] and lse [batch, heads, length], in this order, in
 * the memory of the kernel's device. The caller keeps them until the launch on `stream` is done. */
tesela_code attend_dlpack(const tesela_kernel *kernel,
                          const struct DLManagedTensorVersioned *const given[5], void *stream) {
  tesela_tensor tensors[5];
  tesela_tensor_arguments arguments;
  int i;
  memset(tensors, 0, sizeof tensors);
  for (i = 0; i < 5; ++i) {
    tesela_code code;
    tensors[i].size = sizeof tensors[i];
    code = tesela_tensor_from_dl_managed_tensor_versioned(given[i], &tensors[i]);
    if (code != TESELA_OK)
      return code; /* tesela_last_error() says which type or device it is */
  }
  memset(&arguments, 0, sizeof arguments);
  arguments.size = sizeof arguments;
  arguments.q = &tensors[0];
  arguments.k = &tensors[1];
  arguments.v = &tensors[2];
  arguments.o = &tensors[3];
  arguments.lse = &tensors[4];
  return tesela_launch_tensors(kernel, &arguments, stream);
}
