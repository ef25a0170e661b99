mod health;
mod work;
