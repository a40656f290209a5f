"""Records what passes over the links of network namespaces, and looks for texts in it."""
import select
import socket
import struct
import threading

ETH_P_ALL = 3
SOL_PACKET, PACKET_STATISTICS = 263, 6
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
BUFFER_BYTES = 256 << 20
MAX_PACKET_BYTES = 1 << 17
# Shorter texts would be found in random bytes.
MIN_TEXT_BYTES = 6
AROUND_BYTES = 24


class Capture:
    """Reads every TCP packet that passes over some devices, in a thread of its own, until it is closed."""

    def __init__(self, devices, texts):
        """`texts`: by name, the bytes to look for."""
        self.texts = {name: text for name, text in texts.items() if len(text) >= MIN_TEXT_BYTES}
        self.found = {}      # by name of a text: where it was first, with the bytes around it
        self.first_at = {}   # by (sender, receiver, port of the receiver): when the first packet was sent
        self.bytes = self.packets = self.dropped = 0
        self._ends = {}      # by connection and direction: the last bytes, for texts that lie in two packets
        self._keep = max(map(len, self.texts.values()), default=1) - 1
        self._sockets = [self._open(device) for device in devices]
        self._must_stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @staticmethod
    def _open(device):
        # With a protocol, it would get the packets of all devices until it is bound to one.
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        opened.bind((device, ETH_P_ALL))
        opened.setblocking(False)
        return opened

    def _run(self):
        while True:
            ready, _, _ = select.select(self._sockets, [], [], 0.1)
            for one in ready:
                self._read(one)
            if not ready and self._must_stop.is_set():
                return

    def _read(self, one):
        packet, extra, _, _ = one.recvmsg(MAX_PACKET_BYTES, 64)
        seconds, nanoseconds = next(struct.unpack("@qq", data) for _, kind, data in extra if kind == SO_TIMESTAMPNS)
        if len(packet) < 54 or packet[12:14] != b"\x08\x00" or packet[23] != socket.IPPROTO_TCP:
            return
        tcp = 14 + 4 * (packet[14] & 15)
        sender, receiver = socket.inet_ntoa(packet[26:30]), socket.inet_ntoa(packet[30:34])
        sender_port, receiver_port = struct.unpack(">HH", packet[tcp:tcp + 4])
        self.first_at.setdefault((sender, receiver, receiver_port), seconds + nanoseconds / 1e9)
        payload = packet[tcp + 4 * (packet[tcp + 12] >> 4):14 + struct.unpack(">H", packet[16:18])[0]]
        self.packets += 1
        self.bytes += len(payload)
        stream = (one.fileno(), sender, sender_port, receiver, receiver_port)
        data = self._ends.get(stream, b"") + payload
        for name, text in self.texts.items():
            if name not in self.found and text in data:
                at = data.index(text)
                self.found[name] = (f"{sender}:{sender_port} to {receiver}:{receiver_port}, in "
                                    f"{data[max(0, at - AROUND_BYTES):at + len(text) + AROUND_BYTES]!r}")
        self._ends[stream] = data[-self._keep:] if self._keep else b""

    def close(self):
        """Stops when all packets are read. May be called again."""
        self._must_stop.set()
        self._thread.join()
        for one in self._sockets:
            self.dropped += struct.unpack("@II", one.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
            one.close()
        self._sockets = []
