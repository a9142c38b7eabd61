"""The exact machinery: affine laws along rays, linear regions."""
