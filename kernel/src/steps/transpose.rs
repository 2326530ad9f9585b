//! The `transpose` step. It moves nothing: it says with which strides a chunk's elements lie in their bytes.
//! <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/transpose/index.html>

/// The array's dimension that each stored dimension is, after one more transposition.
pub fn then(stored: &[usize], order: &[usize]) -> Vec<usize> {
    order.iter().map(|&dimension| stored[dimension]).collect()
}

/// Whether each dimension is named once.
pub fn is_order(order: &[usize], ndim: usize) -> bool {
    let mut seen = vec![false; ndim];
    order.len() == ndim
        && order.iter().all(|&dimension| dimension < ndim && !std::mem::replace(&mut seen[dimension], true))
}

/// Byte strides of the array's dimensions in the stored chunk. The sizes were checked to multiply without overflow.
pub fn strides(shape: &[usize], stored: &[usize], itemsize: usize) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut stride = itemsize;
    for &dimension in stored.iter().rev() {
        strides[dimension] = stride as isize;
        stride *= shape[dimension];
    }
    strides
}

/// Byte strides of C order.
pub fn c_strides(shape: &[usize], itemsize: usize) -> Vec<isize> {
    let in_order: Vec<usize> = (0..shape.len()).collect();
    strides(shape, &in_order, itemsize)
}
