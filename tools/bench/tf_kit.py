"""The networks in TensorFlow, for tf_peer.py."""

import tensorflow as tf

import our_numbers

EPS, MOMENTUM = 1e-5, 0.1  # batch norm


def same(padding):
    return [[0, 0], [padding, padding], [padding, padding], [0, 0]]


class TensorflowKit:
    """Layers as functions of tensors; the kit stores the trained variables."""

    def __init__(self, seed):
        self.seed, self.parameters = seed, []

    def parameter(self, value):
        self.parameters.append(tf.Variable(value))
        return self.parameters[-1]

    def conv(self, name, inputs, outputs, kernel, stride=1, groups=1, padding=None, bias=False):
        padding = same(kernel // 2 if padding is None else padding)
        weight = our_numbers.conv_weight(self.seed, name, outputs, kernel, inputs // groups)
        depthwise = groups > 1
        if depthwise and groups != inputs:
            raise ValueError("convolutions with several channels in a group are not supported")
        w = self.parameter(weight.transpose(1, 2, 0, 3) if depthwise else
                           weight.transpose(1, 2, 3, 0))
        b = self.parameter(tf.zeros(outputs)) if bias else None

        def run(x):
            if depthwise:
                return tf.nn.depthwise_conv2d(x, w, [1, stride, stride, 1], padding)
            y = tf.nn.conv2d(x, w, stride, padding)
            return y if b is None else tf.nn.bias_add(y, b)

        return run

    def norm(self, _, channels):
        gamma = self.parameter(tf.ones(channels))
        beta = self.parameter(tf.zeros(channels))
        mean = tf.Variable(tf.zeros(channels), trainable=False)
        variance = tf.Variable(tf.ones(channels), trainable=False)

        def run(x):
            y, batch_mean, batch_variance = tf.compat.v1.nn.fused_batch_norm(
                x, gamma, beta, epsilon=EPS, is_training=True)
            mean.assign_sub(MOMENTUM * (mean - batch_mean))
            variance.assign_sub(MOMENTUM * (variance - batch_variance))
            return y

        return run

    def linear(self, name, inputs, outputs):
        weight, bias = our_numbers.linear_weights(self.seed, name, outputs, inputs)
        w, b = self.parameter(weight.T), self.parameter(bias)
        return lambda x: tf.matmul(x, w) + b

    def sequence(self, *layers):
        def run(x):
            for layer in layers:
                x = layer(x)
            return x

        return run

    def residual(self, body, shortcut, act):
        def run(x):
            y = body(x) + (shortcut(x) if shortcut else x)
            return act(y) if act else y

        return run

    def activated_first(self, act, body, shortcut):
        def run(x):
            o = act(x)
            return body(o) + (shortcut(o) if shortcut else x)

        return run

    def widened(self, body):
        return lambda x: tf.concat((x, body(x)), 3)

    def scaled_by(self, scales):
        return lambda x: x * scales(x)

    def option_a(self, inputs, outputs, stride):
        before = (outputs - inputs) // 2
        pad = [[0, 0], [0, 0], [0, 0], [before, outputs - inputs - before]]
        return lambda x: tf.pad(x[:, ::stride, ::stride, :], pad)

    def relu(self):
        return tf.nn.relu

    def relu6(self):
        return tf.nn.relu6

    def silu(self):
        return tf.nn.silu

    def sigmoid(self):
        return tf.nn.sigmoid

    def mean_image(self):
        return lambda x: tf.reduce_mean(x, (1, 2), keepdims=True)

    def max_pool(self, kernel, stride=None, padding=0):
        def pool(x):
            if padding:  # XLA has no maximum pooling with padding of its own
                x = tf.pad(x, same(padding), constant_values=x.dtype.min)
            return tf.nn.max_pool2d(x, kernel, stride or kernel, "VALID")
        return pool

    def average_pool(self, kernel):
        return lambda x: tf.nn.avg_pool2d(x, kernel, kernel, "VALID")

    def global_pool(self):
        return lambda x: tf.reduce_mean(x, (1, 2))

    def flatten(self, channels, side):
        return lambda x: tf.reshape(x, (-1, side * side * channels))
