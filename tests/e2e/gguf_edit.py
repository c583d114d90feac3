"""Reads a small GGUF file into parts that can be changed, and writes it again, right or wrong."""
import struct
from dataclasses import dataclass

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
DEFAULT_ALIGNMENT = 32
TYPE_F32, TYPE_F16, TYPE_Q4_0, TYPE_Q8_0, TYPE_Q2_K, TYPE_Q3_K = 0, 1, 2, 8, 10, 11


@dataclass
class Tensor:
    name: bytes
    dims: list
    type: int
    offset: int


def packed_string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


class Gguf:
    """keys: name -> (type, bytes of the value), in file order; tensors; data."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.raw = file.read()
        self.at = 8
        self.version = struct.unpack_from("<I", self.raw, 4)[0]
        n_tensors, n_keys = self._take("<QQ")
        self.keys = {}
        for _ in range(n_keys):
            name = self._string().decode()
            kind, = self._take("<I")
            start = self.at
            self._skip(kind)
            self.keys[name] = (kind, self.raw[start:self.at])
        self.end_of_keys = self.at
        self.tensors = []
        for _ in range(n_tensors):
            name = self._string()
            n_dims, = self._take("<I")
            dims = list(self._take(f"<{n_dims}Q"))
            self.tensors.append(Tensor(name, dims, *self._take("<IQ")))
        self.end_of_tensors = self.at
        self.data_start = -(-self.at // self.alignment) * self.alignment
        self.data = bytearray(self.raw[self.data_start:])

    def _take(self, layout):
        values = struct.unpack_from(layout, self.raw, self.at)
        self.at += struct.calcsize(layout)
        return values

    def _string(self):
        size, = self._take("<Q")
        self.at += size
        return self.raw[self.at - size:self.at]

    def _skip(self, kind):
        if kind == STRING:
            self._string()
        elif kind == ARRAY:
            element, count = self._take("<IQ")
            if element in WIDTHS:
                self.at += count * WIDTHS[element]
            else:
                for _ in range(count):
                    self._string()
        else:
            self.at += WIDTHS[kind]

    @property
    def alignment(self):
        _, value = self.keys.get("general.alignment", (UINT32, struct.pack("<I", DEFAULT_ALIGNMENT)))
        return int.from_bytes(value, "little")

    def set_u32(self, key, value):
        self.keys[key] = (UINT32, struct.pack("<I", value))

    def set_f32(self, key, value):
        self.keys[key] = (FLOAT32, struct.pack("<f", value))

    def set_bool(self, key, value):
        self.keys[key] = (BOOL, bytes([value]))

    def set_string(self, key, value):
        self.keys[key] = (STRING, packed_string(value))

    def strings(self, key):
        """The elements of an array of strings."""
        value, found, at = self.keys[key][1], [], 12
        while at < len(value):
            size, = struct.unpack_from("<Q", value, at)
            found.append(value[at + 8:at + 8 + size])
            at += 8 + size
        return found

    def set_strings(self, key, values):
        self.keys[key] = (ARRAY, struct.pack("<IQ", STRING, len(values)) + b"".join(map(packed_string, values)))

    def set_i32s(self, key, values):
        self.keys[key] = (ARRAY, struct.pack(f"<IQ{len(values)}i", INT32, len(values), *values))

    def without(self, *keys):
        for key in keys:
            del self.keys[key]

    def tensor(self, name):
        return next(t for t in self.tensors if t.name == name.encode())

    def fill_f32(self, name, value):
        """Sets all numbers of a vector to the value."""
        t = self.tensor(name)
        self.data[t.offset:t.offset + 4 * t.dims[0]] = struct.pack("<f", value) * t.dims[0]

    def bytes(self, magic=b"GGUF", version=None, n_tensors=None, n_keys=None, twice=None):
        """The file; counts may lie, and the key `twice` is written again at the end."""
        keys = list(self.keys.items())
        if twice:
            keys.append((twice, self.keys[twice]))
        out = magic + struct.pack("<IQQ", self.version if version is None else version,
                                  len(self.tensors) if n_tensors is None else n_tensors,
                                  len(keys) if n_keys is None else n_keys)
        for name, (kind, value) in keys:
            out += packed_string(name) + struct.pack("<I", kind) + value
        for t in self.tensors:
            out += packed_string(t.name) + struct.pack(f"<I{len(t.dims)}QIQ", len(t.dims), *t.dims, t.type, t.offset)
        return out + bytes(-len(out) % self.alignment) + self.data
