mod health;
mod status;
mod work;
