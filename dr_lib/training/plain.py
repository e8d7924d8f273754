"""Mode plain: Keras's fit on a tf.data pipeline over the shards, as a reader would write it."""

import numpy as np

from dr_lib.data.prepared.batches import Batches
from dr_lib.data.prepared.folder import Photographs
from dr_lib.data.prepared.records import ShardError
from dr_lib.data.prepared.stream import StoredCrops
from dr_lib.errors import DrError


class PlainBatches(Batches):
    """Full training batches that tf.data reads, decodes and shuffles; counted as `Batches` does."""

    def __init__(
        self, photographs: Photographs, targets: np.ndarray, batch_size: int, *, seed: int
    ):
        """Take one side of a split, loaded with `stream`; for the rest see `Batches`."""
        if not isinstance(photographs.images, StoredCrops):
            raise DrError("mode plain reads the shards of a prepared folder: give data_dir")
        super().__init__(photographs.images, targets, batch_size, shuffle_seed=seed)
        self.image_id = photographs.image_id

    def find_error(self) -> ShardError | None:
        """Find a shard that can no longer be read, which tf.data names in a long report."""
        try:
            for row in range(len(self.inputs)):
                self.inputs.read_jpeg(row)
        except ShardError as error:
            return error

    def feed(self):
        """Build the pipeline: records by image id, their JPEGs decoded anew in each epoch.

        The decoder's exact transform gives the pixels of mode paper (TensorFlow's default differs
        by up to 12 of 255); crops that are shrunk differ by one level of rounding.
        """
        import keras
        import tensorflow as tf

        if keras.backend.backend() == "jax":  # which needs the memory of the GPUs
            tf.config.set_visible_devices([], "GPU")
        names = ("image/encoded", "image/id")
        features = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
        rows = tf.lookup.KeyValueTensorInitializer(
            self.image_id.tolist(), np.arange(len(self.image_id))
        )
        table = tf.lookup.StaticHashTable(rows, default_value=-1)
        targets = tf.constant(self.targets)
        shape = self.inputs.shape[1:]

        def parse(example):
            record = tf.io.parse_single_example(example, features)
            return record["image/encoded"], table.lookup(record["image/id"])

        def note(*batch):
            tf.numpy_function(self.note_ready, [], [])
            return batch

        def decode(encoded, row):
            image = tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE")
            image = tf.image.resize(image, shape[:2], method="area")
            return tf.cast(tf.round(image), tf.uint8), targets[row]

        return (
            tf.data.TFRecordDataset(list(map(str, self.inputs.paths)))
            .map(parse, tf.data.AUTOTUNE)
            .filter(lambda encoded, row: row >= 0)  # photographs of this side alone
            .shuffle(4096, seed=self.shuffle_seed)  # records of about 40 kB
            .map(decode, tf.data.AUTOTUNE)
            .batch(self.batch_size, drop_remainder=True)
            .map(note)
            .apply(tf.data.experimental.assert_cardinality(len(self)))
            .prefetch(tf.data.AUTOTUNE)
        )
