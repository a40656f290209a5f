"""A known network of Tern, as a NetDef file and as a PyTorch module."""
import json
import subprocess

from torch_net import TorchNet


class NetFile:
    def __init__(self, build, folder, model, words=()):
        """`words`: further arguments of `tern model`."""
        done = subprocess.run([build / "bin/tern", "model", model, "--json", *words], check=True, capture_output=True, text=True)
        self.path = folder / f"{model}.json"
        self.path.write_text(done.stdout)
        self.net = json.loads(done.stdout)
        self.shape = [self.net["input"][axis] for axis in ("channels", "height", "width")]
        self.classes = self.net["classes"]

    def torch_net(self):
        return TorchNet(self.net)

    @staticmethod
    def weights(torch_net):
        """Returns parameters and running statistics as {name in Tern's files: tensor}."""
        return {name: tensor.detach() for name, tensor in torch_net.named_by_layer() if not name.endswith("num_batches_tracked")}

    def load(self, torch_net, weights):
        """Loads such weights, which must have exactly these names."""
        named = self.weights(torch_net)
        if named.keys() != weights.keys():
            raise ValueError(f"the weights have other names than the net: {sorted(named.keys() ^ weights.keys())}")
        for name, tensor in named.items():
            tensor.copy_(weights[name])
