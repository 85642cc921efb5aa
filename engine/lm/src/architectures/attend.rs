//! Causal self-attention over a batch's own rows, or over a cache after writing the batch's keys and values to it.

use crate::model::CacheSlots;
use hopeval_device::{Attention, Device, DeviceError, TensorColumns};

/// Attends with queries, keys and values, side by side in `qkv [rows, (heads + 2 * kv_heads) * head_dim]`.
/// `layer` is the index of the layer in the cache.
pub(super) fn self_attention<D: Device>(
    device: &D,
    layer: usize,
    qkv: &D::Tensor,
    slots: &mut Option<CacheSlots<'_, D>>,
    attention: &Attention<'_, D>,
) -> Result<D::Tensor, DeviceError> {
    let keys = attention.heads * attention.head_dim;
    let values = keys + attention.kv_heads * attention.head_dim;
    let columns = |start| TensorColumns { tensor: qkv, start };
    let Some(slots) = slots else {
        return device.attention(columns(0), columns(keys), columns(values), attention);
    };
    let cache = &mut *slots.cache;
    device.scatter(&mut cache.keys[layer], slots.rows, columns(keys))?;
    device.scatter(&mut cache.values[layer], slots.rows, columns(values))?;
    let cached = |tensor| TensorColumns { tensor, start: 0 };
    device.attention(columns(0), cached(&cache.keys[layer]), cached(&cache.values[layer]), attention)
}
