"""A peer of `trainer bench`: TensorFlow's training step on the CPU, timed the same way.

    python tf_peer.py --model resnet20 --batch 128 --threads 2 --variant xla --json

The networks, weights, batches and the update are those of peer.py; images are NHWC. A step is one
tf.function. Variants: function, xla (the same with jit_compile). Needs tensorflow or
tensorflow-cpu.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import our_numbers  # noqa: E402
from networks import NETWORKS  # noqa: E402
from peer import MODELS, argument_parser, show, timed  # noqa: E402

VARIANTS = ("function", "xla")
DECAY = 5e-4


def step_of(tf, network, parameters, variant, lr):
    velocities = [tf.Variable(tf.zeros_like(p)) for p in parameters]

    @tf.function(jit_compile=variant == "xla")
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels, logits=network(images)))
        for p, v, g in zip(parameters, velocities, tape.gradient(loss, parameters)):
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=p.handle, accum=v.handle, lr=lr, grad=g + DECAY * p, momentum=0.9,
                use_nesterov=True)
        return loss

    return step


def measure(arguments):
    import tensorflow as tf

    import tf_kit

    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    make, (channels, side), published = NETWORKS[arguments.model]
    classes, side = arguments.classes or published, arguments.image or side
    kit = tf_kit.TensorflowKit(arguments.seed)
    network = make(kit, classes)
    data = [(tf.constant(x), tf.constant(y))
            for x, y in our_numbers.batches(arguments.seed, arguments.batch,
                                            (side, side, channels), classes)]
    train = step_of(tf, network, kit.parameters, arguments.variant, arguments.lr)
    return timed(lambda number: float(train(*data[number % len(data)])), arguments) | {
        "version": f"TensorFlow {tf.__version__}",
        "parameters": sum(int(tf.size(p)) for p in kit.parameters)}


def main():
    arguments = argument_parser(__doc__.splitlines()[0], VARIANTS).parse_args()
    show(measure(arguments), arguments.json)


if __name__ == "__main__":
    main()
