"""Mode plain: Keras's fit on a tf.data pipeline over the shards, as a reader would write it."""

import numpy as np

from dr_lib.data.prepared.batches import Batches
from dr_lib.data.prepared.folder import Photographs
from dr_lib.data.prepared.records import ShardError


class PlainBatches(Batches):
    """Full training batches that tf.data reads, decodes and shuffles; counted as `Batches` does."""

    def __init__(
        self, photographs: Photographs, targets: np.ndarray, batch_size: int, *, seed: int
    ):
        """Take one side of a split, loaded with `stream`; for the rest see `Batches`.

        Attributes:
            shards: the files of records, one photograph each.
        """
        import keras
        import tensorflow as tf

        super().__init__(photographs.images, targets, batch_size, shuffle_seed=seed)
        if keras.backend.backend() == "jax":  # which needs the memory of the GPUs
            tf.config.set_visible_devices([], "GPU")
        self.shards = list(map(str, self.inputs.paths))
        self._rows = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                photographs.image_id.tolist(), np.arange(len(photographs.image_id))
            ),
            default_value=-1,
        )
        self._truth = tf.constant(targets)

    def find_error(self) -> ShardError | None:
        """Find a shard that can no longer be read, which tf.data names in a long report."""
        try:
            for row in range(len(self.inputs)):
                self.inputs.read_jpeg(row)
        except ShardError as error:
            return error

    def parse(self, record):
        """Read a record: its JPEG, and the row of the photograph on this side, or -1."""
        import tensorflow as tf

        names = ("image/encoded", "image/id")
        features = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
        example = tf.io.parse_single_example(record, features)
        return example["image/encoded"], self._rows.lookup(example["image/id"])

    def is_known(self, encoded, row):
        """Whether the photograph is on this side."""
        return row >= 0

    def decode(self, encoded, row):
        """Decode a JPEG and shrink it by area; return the pixels and the target.

        The decoder's exact transform gives the pixels of mode paper (TensorFlow's default differs
        by up to 12 of 255); crops that are shrunk differ by one level of rounding.
        """
        import tensorflow as tf

        image = tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE")
        image = tf.image.resize(image, self.inputs.shape[1:3], method="area")
        return tf.cast(tf.round(image), tf.uint8), self._truth[row]

    def note(self, *batch):
        """Note that a batch is ready, and pass it on."""
        import tensorflow as tf

        tf.numpy_function(self.note_ready, [], [])
        return batch

    def feed(self):
        """Build the pipeline, as notebook 10 shows it."""
        import tensorflow as tf

        return (
            tf.data.TFRecordDataset(self.shards)
            .map(self.parse, tf.data.AUTOTUNE)
            .filter(self.is_known)
            .shuffle(4096, seed=self.shuffle_seed)
            .map(self.decode, tf.data.AUTOTUNE)
            .batch(self.batch_size, drop_remainder=True)
            .map(self.note)
            .apply(tf.data.experimental.assert_cardinality(len(self)))
            .prefetch(tf.data.AUTOTUNE)
        )
