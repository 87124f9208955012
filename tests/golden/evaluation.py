"""Prints the metrics that scikit-learn computes from a confusion matrix, and the expected calibration
error of some confidences as Guo et al. (2017) define it, for tests/models/run/class_metrics_test.cc
and calibration_test.cc.

    python evaluation.py

Needs scikit-learn and numpy.
"""

import numpy as np
from sklearn.metrics import precision_recall_fscore_support

# Rows are true classes, columns predicted ones. Class 3 has no images and is only predicted, class 4 is
# never correct, class 5 does not occur.
COUNTS = [[7, 2, 0, 1, 0, 0],
          [1, 3, 1, 0, 0, 0],
          [0, 0, 4, 0, 0, 0],
          [0, 0, 0, 0, 0, 0],
          [2, 0, 1, 0, 0, 0],
          [0, 0, 0, 0, 0, 0]]

# Confidence, and whether correct. 0.2 and 0.6 are edges of 15 bins; in float32 they are above the edges.
SHARES = [(0.2, False), (0.25, True), (0.5, False), (0.6, True), (0.625, False), (0.9375, True),
          (0.95, True), (0.99, False), (1.0, True), (1.0, True)]


def classes():
    truth, taken = [], []
    for row, counts in enumerate(COUNTS):
        for column, count in enumerate(counts):
            truth += [row] * count
            taken += [column] * count
    for name, rows in zip(("precision", "recall", "f1", "images"),
                          precision_recall_fscore_support(truth, taken, zero_division=0)):
        print(name, [round(float(value), 12) for value in rows])
    for average in ("macro", "weighted"):
        figures = precision_recall_fscore_support(truth, taken, average=average, zero_division=0)
        print(average, [round(float(value), 12) for value in figures[:3]])


def calibration(bins=15):
    sure = np.array([share for share, _ in SHARES], np.float32).astype(np.float64)
    right = np.array([is_right for _, is_right in SHARES], np.float64)
    error = 0.0
    for k in range(bins):
        inside = (sure > k / bins) & (sure <= (k + 1) / bins)
        if inside.any():
            error += inside.mean() * abs(right[inside].mean() - sure[inside].mean())
            print("bin", k, inside.sum(), int(right[inside].sum()))
    print("error", round(error, 12))


if __name__ == "__main__":
    classes()
    calibration()
