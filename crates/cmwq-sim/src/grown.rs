//! Tables that grow with the numbers they are asked for: pools, workers and groups are numbered as
//! they come.

/// The entry of `number`, which is the default one at first.
pub(crate) fn grown<T: Clone + Default>(table: &mut Vec<T>, number: usize) -> &mut T {
    if table.len() <= number {
        table.resize(number + 1, T::default());
    }
    &mut table[number]
}
