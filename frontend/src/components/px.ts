export const px = (n: number): string => `${n}px`;
