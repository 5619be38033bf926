# Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs the PTX of the mma.sync path (sm_80) with NumPy (PTX ISA, chapter 9), so that a machine without a GPU
# can check what a kernel computes. All threads of all thread blocks run together: a register is an array with
# one element for each thread. The threads at the smallest program counter continue first, so diverged threads
# meet again behind the branch.
#
# The emulator shows what the code means, not how a machine runs it. Copies arrive at once, so it finds no
# missing wait and no race, and it does not run what ptxas makes of the PTX. These checks need a GPU. Errors
# are: an unknown instruction, an access outside of the memory, and an instruction of a whole warp that some of
# its lanes do not reach.

import re

import numpy as np

U16, U32, U64, I16, I32, I64, F32 = (
    np.uint16, np.uint32, np.uint64, np.int16, np.int32, np.int64, np.float32
)
TYPES = {"s32": I32, "u32": U32, "b32": U32, "s64": I64, "u64": U64, "b64": U64, "pred": np.bool_,
         "s16": I16, "u16": U16, "b16": U16}
SHARED_BYTES = 232448
END = 1 << 40
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
}
COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
FUNCTIONS = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "rcp": lambda x: F32(1) / x,
}


def split_operands(text):
    """Splits at commas outside of brackets."""
    operands, depth, current = [], 0, ""
    for character in text:
        depth += (character in "{[") - (character in "}]")
        if character == "," and depth == 0:
            operands.append(current.strip())
            current = ""
        else:
            current += character
    return operands + [current.strip()] if current.strip() else operands


class Instruction:
    def __init__(self, text):
        self.text = text
        guard = re.match(r"@(!?)(%p\d+)\s+(.*)", text)
        self.guard = (guard.group(2), guard.group(1) == "!") if guard else None
        parts = (guard.group(3) if guard else text).split(None, 1)
        self.parts = parts[0].split(".")
        self.name, self.type = self.parts[0], self.parts[-1]
        self.operands = split_operands(parts[1] if len(parts) > 1 else "")


def parse(ptx, kernel):
    """The instructions and the labels of `kernel`."""
    code, labels, depth = [], {}, 0
    start = ptx.index(".entry " + kernel + "(")
    for line in ptx[ptx.index("\n{", start) + 1 :].split("\n"):
        line = line.split("//")[0].strip()
        if line in ("{", "}"):  # each inline assembly has its own scope
            depth += 1 if line == "{" else -1
            if depth == 0:
                return code, labels
            continue
        for statement in line.split(";"):
            statement = statement.strip()
            label = re.match(r"(\$\w+):", statement)
            if label:
                labels[label.group(1)] = len(code)
                statement = statement[label.end() :].strip()
            if statement and not statement.startswith((".reg", ".pragma")):
                code.append(Instruction(statement))
    raise ValueError(f"the kernel {kernel} has no end")


def parameter_types(ptx, kernel):
    """The type of each parameter, and whether it is an address."""
    start = ptx.index(".entry " + kernel + "(")
    return re.findall(r"\.param \.(\w+)( \.ptr)?", ptx[start : ptx.index(")", start)])


class Emulator:
    """`memory`: bytes of global memory, from the address `base` on, to which results are written.
    `parameters`: the kernel's parameters as unsigned numbers."""

    def __init__(self, ptx, kernel, blocks, threads, parameters, memory, base):
        self.code, self.labels = parse(ptx, kernel)
        self.blocks, self.threads, self.count = blocks, threads, blocks * threads
        self.parameters, self.memory, self.base = parameters, memory, base
        number = np.arange(self.count)
        self.lane, self.registers = number % 32, {}
        self.first_lane = number - self.lane
        self.special = {
            "%tid.x": (number % threads).astype(U32),
            "%ctaid.x": (number // threads).astype(U32),
            "tesela_shared": U64(0),
        }
        words = SHARED_BYTES // 4
        self.shared = np.full(blocks * words, 0xFFFFFFFF, U32)  # NaN in every type
        self.own_shared = number // threads * words
        self.active = None

    def run(self):
        counter = np.zeros(self.count, I64)
        waiting = np.zeros(self.count, bool)
        targets = set(self.labels.values())
        while True:
            runnable = ~waiting & (counter < END)
            if not runnable.any():
                if waiting.any():
                    raise RuntimeError("threads wait at a barrier that others do not reach")
                return
            at = int(counter[runnable].min())
            group = runnable & (counter == at)
            while True:
                instruction = self.code[at]
                active = group
                if instruction.guard:
                    register, negated = instruction.guard
                    active = group & (self.registers[register] ^ negated)
                at += 1
                if instruction.name in ("bra", "ret", "exit"):
                    is_branch = instruction.name == "bra"
                    counter[group] = at
                    counter[active] = self.labels[instruction.operands[0]] if is_branch else END
                    break
                if instruction.parts[:2] == ["bar", "sync"]:
                    counter[group] = at
                    waiting |= active
                    ended = (counter >= END).reshape(self.blocks, -1)
                    of_block = waiting.reshape(self.blocks, -1)
                    of_block[(of_block | ended).all(axis=1)] = False
                    break
                self.active = active
                try:
                    with np.errstate(all="ignore"):  # inactive threads compute, too
                        getattr(self, "do_" + instruction.name, self.arithmetic)(instruction)
                except Exception as error:
                    raise RuntimeError(f"{instruction.text}: {error}") from error
                if at in targets:
                    counter[group] = at
                    break

    # ---- operands ----

    def value(self, operand, type_="b32"):
        """The operand's value in `type_`: an array with one number for each thread, or one number for all."""
        if operand in self.registers:
            value = self.registers[operand]
        elif operand in self.special:
            value = self.special[operand]
        elif operand.lower().startswith("0f"):
            value = U32(int(operand[2:], 16))
        else:
            value = U64(int(operand, 0) & 0xFFFFFFFFFFFFFFFF)
            value = value if type_.endswith("64") else value.astype(U32)
        value = np.asarray(value)
        if type_ == "f32":
            return value.astype(U32).view(F32)
        return value.astype(TYPES[type_])

    def spread(self, value):
        return np.broadcast_to(value, (self.count,))

    def put(self, register, value):
        value = np.asarray(value)
        if value.dtype in (F32, I32):
            value = value.view(U32)
        elif value.dtype == I64:
            value = value.view(U64)
        old = self.registers.get(register)
        if old is None or old.dtype != value.dtype:
            old = self.registers[register] = np.zeros(self.count, value.dtype)
        np.copyto(old, value, where=self.active)

    def addresses(self, operand):
        register, offset = re.match(r"\[([%\w]+)(?:\+(-?\d+))?\]$", operand).groups()
        return self.spread(self.value(register, "b64").astype(I64) + int(offset or 0))

    def place(self, space, address, size, where):
        """The memory as words of `size` bytes, and the index of each thread's word."""
        is_shared = space == "shared"
        offset = address if is_shared else address - self.base
        limit = SHARED_BYTES if is_shared else self.memory.nbytes
        fits = (offset >= 0) & (offset + size <= limit) & (offset % size == 0)
        if not fits[where].all():
            raise RuntimeError(f"{space} address {hex(int(address[where & ~fits][0]))} is outside")
        memory = self.shared if is_shared else self.memory
        index = offset // size + (self.own_shared * 4 // size if is_shared else 0)
        return memory.view({1: np.uint8, 2: U16, 4: U32}[size]), np.where(where, index, 0)

    def whole_warps(self):
        warps = self.active.reshape(-1, 32)
        if not (warps.all(axis=1) | ~warps.any(axis=1)).all():
            raise RuntimeError("lanes of a warp are missing")

    # ---- launches ----

    def do_griddepcontrol(self, instruction):
        """Does nothing: the launches before this one have ended."""

    # ---- memory ----

    def do_ld(self, i):
        if i.parts[1] == "param":
            index = int(re.search(r"_param_(\d+)", i.operands[1]).group(1))
            type_ = U64 if i.type.endswith("64") else U32
            return self.put(i.operands[0], np.full(self.count, self.parameters[index], type_))
        space = "shared" if "shared" in i.parts else "global"
        address, size = self.addresses(i.operands[1]), int(i.type[1:]) // 8
        registers = [name.strip() for name in i.operands[0].strip("{}").split(",")]
        for number, register in enumerate(registers):
            memory, index = self.place(space, address + size * number, min(size, 4), self.active)
            value = memory[index]
            if size == 8:
                value = value.astype(U64) | memory[index + 1].astype(U64) << U64(32)
            self.put(register, value if size >= 4 else value.astype(U32))

    def do_st(self, i):
        space = "shared" if "shared" in i.parts else "global"
        address, size = self.addresses(i.operands[0]), min(int(i.type[1:]) // 8, 4)
        for number, operand in enumerate(i.operands[1].strip("{}").split(",")):
            memory, index = self.place(space, address + size * number, size, self.active)
            value = self.spread(self.value(operand.strip()))
            memory[index[self.active]] = value.astype(memory.dtype)[self.active]

    def do_atom(self, i):
        """Additions to global memory whose old values nobody reads."""
        address, is_float = self.addresses(i.operands[-2]), i.type == "f32"  # red has no result operand
        value = self.spread(self.value(i.operands[-1], i.type))
        memory, index = self.place("global", address, 4, self.active)
        for thread in np.flatnonzero(self.active):
            word = memory[index[thread] : index[thread] + (1 if is_float else 2)]
            word.view(F32 if is_float else U64)[0] += value[thread]

    do_red = do_atom

    def do_cp(self, i):
        if i.parts[2] in ("commit_group", "wait_group", "wait_all"):
            return
        target, source = self.addresses(i.operands[0]), self.addresses(i.operands[1])
        size = self.spread(self.value(i.operands[3]).astype(I64))
        for word in range(4):
            copied = self.active & (size > 4 * word)
            memory, index = self.place("global", source + 4 * word, 4, copied)
            value = np.where(copied, memory[index], 0)
            shared, index = self.place("shared", target + 4 * word, 4, self.active)
            shared[index[self.active]] = value[self.active]

    def do_ldmatrix(self, i):
        self.whole_warps()
        rows, column = self.lane >> 2, (self.lane & 3) * 2
        address = self.addresses(i.operands[1])
        for number, register in enumerate(i.operands[0].strip("{}").split(",")):
            # Eight lanes, from 8 · number on, give the rows' addresses.
            halves = []
            for odd in (0, 1):
                row, at = (column + odd, rows) if "trans" in i.parts else (rows, column + odd)
                place = address[self.first_lane + 8 * number + row] + 2 * at
                memory, index = self.place("shared", place, 2, self.active)
                halves.append(memory[index].astype(U32))
            self.put(register.strip(), halves[0] | halves[1] << U32(16))

    # ---- warps ----

    def do_bar(self, i):
        if "red" not in i.parts:
            return self.whole_warps()  # bar.warp.sync
        # bar.red.or: a vote of the thread block.
        truths = self.spread(self.value(i.operands[3], "pred")).reshape(self.blocks, -1)
        present = self.active.reshape(self.blocks, -1)
        if not (present.all(axis=1) | ~present.any(axis=1)).all():
            raise RuntimeError("threads of a block are missing")
        self.put(i.operands[0], np.repeat(truths.any(axis=1), self.threads))

    def do_shfl(self, i):
        self.whole_warps()
        by = self.value(i.operands[2]).astype(I64)
        # A lane without a source keeps its own value.
        up = np.where(self.lane >= by, self.lane - by, self.lane)
        source = {"bfly": self.lane ^ by, "idx": by & 31 | 0 * self.lane, "up": up}[i.parts[2]]
        self.put(i.operands[0], self.spread(self.value(i.operands[1]))[self.first_lane + source])

    def do_redux(self, i):
        self.whole_warps()
        values = self.spread(self.value(i.operands[1], i.type)).reshape(-1, 32)
        reduce = {"add": np.add, "max": np.maximum}[i.parts[2]]
        self.put(i.operands[0], np.repeat(reduce.reduce(values, axis=1).astype(values.dtype), 32))

    def do_vote(self, i):
        self.whole_warps()
        truths = self.spread(self.value(i.operands[1], "pred")).reshape(-1, 32)
        if i.parts[2] == "ballot":
            result = (truths.astype(I64) << np.arange(32)).sum(axis=1).astype(U32)
        else:
            result = {"any": truths.any(axis=1), "all": truths.all(axis=1)}[i.parts[2]]
        self.put(i.operands[0], np.repeat(result, 32))

    def do_mma(self, i):
        self.whole_warps()
        results, a, b, c = [
            [name.strip() for name in operand.strip("{}").split(",")] for operand in i.operands
        ]

        def halves(register):
            bits = np.ascontiguousarray(self.spread(self.value(register)))
            if "f16" in i.parts:
                return [bits.view(np.float16)[odd::2] for odd in (0, 1)]
            return [(bits << U32(16)).view(F32), (bits & U32(0xFFFF0000)).view(F32)]

        warp, row, column = np.arange(self.count) // 32, self.lane >> 2, (self.lane & 3) * 2
        left = np.zeros((self.count // 32, 16, 16))
        right, sums = np.zeros((self.count // 32, 16, 8)), np.zeros((self.count // 32, 16, 8))
        for n, register in enumerate(a):
            for odd, half in enumerate(halves(register)):
                left[warp, row + 8 * (n % 2), column + odd + 8 * (n // 2)] = half
        for n, register in enumerate(b):
            for odd, half in enumerate(halves(register)):
                right[warp, column + odd + 8 * n, row] = half
        for n, register in enumerate(c):
            sums[warp, row + 8 * (n // 2), column + n % 2] = self.value(register, "f32")
        product = (np.einsum("wik,wkj->wij", left, right) + sums).astype(F32)
        for n, register in enumerate(results):
            self.put(register, product[warp, row + 8 * (n // 2), column + n % 2])

    # ---- arithmetic ----

    def do_mov(self, i):
        target, source = i.operands
        if target.startswith("{"):
            low, high = [name.strip() for name in target.strip("{}").split(",")]
            value = self.value(source, "b64")
            for name, part in ((low, value), (high, value >> U64(32))):
                if name != "_":
                    self.put(name, self.spread((part & U64(0xFFFFFFFF)).astype(U32)))
        elif source.startswith("{"):
            low, high = [self.value(name.strip()) for name in source.strip("{}").split(",")]
            self.put(target, self.spread(low.astype(U64) | high.astype(U64) << U64(32)))
        else:
            self.put(target, self.spread(self.value(source, i.type)))

    def do_selp(self, i):
        a, b = (self.value(operand, i.type) for operand in i.operands[1:3])
        self.put(i.operands[0], self.spread(np.where(self.value(i.operands[3], "pred"), a, b)))

    def do_setp(self, i):
        a, b = (self.value(operand, i.type) for operand in i.operands[1:3])
        relation, is_float = i.parts[1], i.type == "f32"
        unordered = np.isnan(a) | np.isnan(b) if is_float else False
        if relation in ("nan", "num"):
            result = unordered ^ (relation == "num")
        else:
            takes_nan = is_float and relation not in COMPARE
            result = COMPARE[relation[:-1] if takes_nan else relation](a, b)
            if is_float:
                result = result | unordered if takes_nan else result & ~unordered
        if i.parts[2] in ("and", "or"):
            result = BINARY[i.parts[2]](result, self.value(i.operands[3], "pred"))
        self.put(i.operands[0], self.spread(result))

    def do_cvt(self, i):
        if "bf16x2" in i.parts or "f16x2" in i.parts:
            high, low = (self.value(operand, "f32") for operand in i.operands[1:3])
            round_ = to_bf16 if "bf16x2" in i.parts else lambda x: x.astype(np.float16).view(U16)
            bits = round_(high).astype(U32) << U32(16) | round_(low).astype(U32)
            return self.put(i.operands[0], self.spread(bits))
        to, source = i.parts[-2:]
        value = self.value(i.operands[1], source)
        if source == "f32" and to != "f32":
            whole = np.rint(value) if "rni" in i.parts else np.trunc(value)
            low, high = (0.0, 2.0**63) if to == "u64" else (-(2.0**31), 2.0**31 - 1)
            value = np.clip(np.nan_to_num(whole.astype(np.float64)), low, high)
        self.put(i.operands[0], self.spread(value.astype(F32 if to == "f32" else TYPES[to])))

    def do_mul(self, i):
        self.put(i.operands[0], self.spread(self.product(i)))

    def do_mad(self, i):
        addend = "b64" if "wide" in i.parts else i.type
        result = self.product(i)
        self.put(
            i.operands[0], self.spread(result + self.value(i.operands[3], addend).astype(result.dtype))
        )

    def product(self, i):
        a, b = (self.value(operand, i.type) for operand in i.operands[1:3])
        if i.type == "f32" or i.parts[1] == "lo":
            return a * b
        wide = I64 if i.type.startswith("s") else U64
        product = a.astype(wide) * b.astype(wide)
        high = wide(8 * a.itemsize)
        return product if i.parts[1] == "wide" else (product >> high).astype(a.dtype)

    def do_fma(self, i):
        if i.type in ("bf16x2", "f16x2"):
            a, b, c = (self.spread(self.value(operand)) for operand in i.operands[1:])
            is_bf16 = i.type == "bf16x2"
            wide = from_bf16 if is_bf16 else lambda bits: bits.astype(U16).view(np.float16).astype(F32)
            narrow = to_bf16 if is_bf16 else lambda x: x.astype(np.float16).view(U16)
            with np.errstate(over="ignore", invalid="ignore"):
                halves = [
                    narrow(wide(a >> by & U32(0xFFFF)) * wide(b >> by & U32(0xFFFF)) + wide(c >> by & U32(0xFFFF)))
                    .astype(U32)
                    for by in (U32(0), U32(16))
                ]
            return self.put(i.operands[0], halves[0] | halves[1] << U32(16))
        a, b, c = (self.value(operand, "f32").astype(np.float64) for operand in i.operands[1:])
        self.put(i.operands[0], self.spread((a * b + c).astype(F32)))

    def do_div(self, i):
        a, b = (self.value(operand, i.type) for operand in i.operands[1:3])
        if i.type == "f32":
            return self.put(i.operands[0], self.spread(a / b))
        a64, b64 = a.astype(I64), np.where(b == 0, 1, b).astype(I64)
        quotient = np.abs(a64) // np.abs(b64) * np.sign(a64) * np.sign(b64)
        result = quotient if i.name == "div" else a64 - quotient * b64
        self.put(i.operands[0], self.spread(np.where(b == 0, -1, result).astype(a.dtype)))

    do_rem = do_div

    def do_shl(self, i):
        a, bits = self.value(i.operands[1], i.type), 8 * TYPES[i.type]().itemsize
        amount = self.value(i.operands[2]).astype(I64)
        held = np.minimum(amount, bits - 1).astype(a.dtype)
        result = a << held if i.name == "shl" else a >> held
        if i.name == "shl" or not i.type.startswith("s"):
            result = np.where(amount >= bits, 0, result).astype(a.dtype)
        self.put(i.operands[0], self.spread(result))

    do_shr = do_shl

    def do_shf(self, i):
        low, high, amount = (self.value(operand).astype(U64) for operand in i.operands[1:])
        both, amount = low | high << U64(32), amount & U64(31)
        result = both >> amount if i.parts[1] == "r" else both << amount >> U64(32)
        self.put(i.operands[0], self.spread((result & U64(0xFFFFFFFF)).astype(U32)))

    def do_prmt(self, i):
        low, high, selector = (self.value(operand).astype(U64) for operand in i.operands[1:])
        both, result = low | high << U64(32), U64(0)
        for byte in range(4):
            digit = selector >> U64(4 * byte)
            given = both >> (digit & U64(7)) * U64(8) & U64(0xFF)
            signs = (given >> U64(7)) * U64(0xFF)  # 8: the byte's sign in its place
            result = result | np.where(digit & U64(8), signs, given) << U64(8 * byte)
        self.put(i.operands[0], self.spread(result.astype(U32)))

    def do_lop3(self, i):
        a, b, c = (self.value(operand).astype(U32) for operand in i.operands[1:4])
        result = U32(0)
        for number in range(8):
            if int(i.operands[4]) >> number & 1:
                terms = (word if number & bit else ~word for word, bit in ((a, 4), (b, 2), (c, 1)))
                first, second, third = terms
                result = result | first & second & third
        self.put(i.operands[0], self.spread(result))

    def do_bfe(self, i):
        first, count = int(i.operands[2]), int(i.operands[3])
        if i.type == "s32":
            left = self.value(i.operands[1]) << U32(32 - first - count)
            field = self.spread(left).view(np.int32) >> np.int32(32 - count)
            return self.put(i.operands[0], field.view(U32))
        mask = U32((1 << count) - 1)
        self.put(i.operands[0], self.value(i.operands[1]) >> U32(first) & mask)

    def do_bmsk(self, i):
        first, count = (self.value(operand).astype(I64) for operand in i.operands[1:])
        ones = (I64(1) << np.minimum(count, 32)) - 1
        result = np.where(first >= 32, 0, ones << np.minimum(first, 31)) & 0xFFFFFFFF
        self.put(i.operands[0], self.spread(result.astype(U32)))

    def do_clz(self, i):
        # A double's exponent is the position of the number's highest bit. 0 has none.
        number = self.value(i.operands[1]).astype(np.float64)
        self.put(i.operands[0], np.where(number == 0, 32, 32 - np.frexp(number)[1]).astype(U32))

    def do_popc(self, i):
        bits = self.spread(self.value(i.operands[1]))
        self.put(i.operands[0], np.array([bin(x).count("1") for x in bits], U32))

    def arithmetic(self, i):
        """Instructions with one or two operands of one type."""
        operands = [self.value(operand, i.type) for operand in i.operands[1:]]
        if i.name in FUNCTIONS:
            result = FUNCTIONS[i.name](operands[0]).astype(F32)
        elif i.name in BINARY:
            is_extreme = i.type == "f32" and i.name in ("min", "max")  # a number wins against NaN
            function = {"min": np.fmin, "max": np.fmax}[i.name] if is_extreme else BINARY[i.name]
            result = function(*operands)
        elif i.name == "copysign":
            result = np.copysign(operands[1], operands[0])  # the first operand gives the sign
        elif i.name in ("not", "neg", "abs"):
            invert = np.logical_not if i.type == "pred" else np.invert
            result = {"not": invert, "neg": np.negative, "abs": np.abs}[i.name](operands[0])
        else:
            raise NotImplementedError("the emulator does not know this instruction")
        self.put(i.operands[0], self.spread(result))


def to_bf16(values):
    """The bf16 bits of f32 values, rounded to nearest even."""
    bits = np.ascontiguousarray(values, F32).view(U32).astype(I64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FFF, rounded & 0xFFFF).astype(U16)


def from_bf16(bits):
    return (bits.astype(U32) << U32(16)).view(F32)
